#include "plugin/node/node_publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/utc_text.h"
#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "plugin/node/limits.h"
#include "plugin/node/node_difference.h"
#include "plugin/node/other_access.h"

namespace mgpu::plugin {
namespace {

constexpr int kWritesPerReport = 4;  // the annotation, the status of each condition, the taint
// A server whose messages are all different does not fill the log.
constexpr std::size_t kReportedProblemsMax = 16;

}  // namespace

Duration NodePublisher::Backoff::next(Instant now, double random) {
  if (now - last_ >= kube::kBackoffResetAfter) reset();
  base_ = std::clamp(2 * base_, Duration(kube::kBackoffFirst), Duration(kube::kBackoffMax));
  const double part = 0.5 + random / 2;
  const Duration wait(static_cast<Duration::rep>(static_cast<double>(base_.count()) * part));
  MGPU_DEBUG_CHECK(wait >= Duration(0) && wait <= base_, "a delay is at most the longest one");
  last_ = now + wait;
  return wait;
}

NodePublisher::NodePublisher(NodeName node, Contract contract, kube::Transport& transport,
                             std::function<void(const std::string&)> on_problem,
                             std::function<std::string()> now)
    : node_name_(std::move(node)),
      contract_(std::move(contract)),
      transport_(transport),
      on_problem_(std::move(on_problem)),
      now_(now ? std::move(now) : std::function<std::string()>(utc_now)),
      reflector_("node " + node_name_.str(), kube::one_node(node_name_), transport, consumer(),
                 {.on_problem = [this](const auto& why) { report_once(read_problems_, why); },
                  .on_unreadable =
                      [this](const auto& why) {
                        if (unreadable_.note(why)) on_problem_(why);
                      }}) {
  reflector_.start();
}

void NodePublisher::publish(NodeReport report) {
  executor().post(
      callbacks_.wrap([this, report = std::move(report), generation = ++published_]() mutable {
        on_report(std::move(report), generation);
      }));
}

void NodePublisher::withdraw() {
  executor().post(callbacks_.wrap([this, generation = ++published_] {
    generation_ = generation;
    report_.reset();
  }));
}

bool NodePublisher::settled() const {
  const std::uint64_t published = published_;
  return published != 0 && settled_ == published;
}

void NodePublisher::report_once(std::set<std::string>& reported, const std::string& problem) const {
  if (reported.size() < kReportedProblemsMax && reported.insert(problem).second) {
    on_problem_(problem);
  }
}

void NodePublisher::on_report(NodeReport report, std::uint64_t generation) {
  if (generation <= generation_) return;
  report_ = std::move(report);
  generation_ = generation;
  writes_ = 0;
  compare();
}

kube::Consumer<kube::Node> NodePublisher::consumer() {
  return {.read = kube::read_node,
          .apply =
              [this](kube::Node node) {
                read_problems_.clear();
                on_node(std::move(node));
              },
          .remove = [this](const kube::Node&) { on_node_deleted(); },
          .relist =
              [this](std::vector<kube::Node> nodes, bool complete) {
                if (complete) read_problems_.clear();
                awaited_version_.clear();
                relisted_during_write_ = true;
                for (kube::Node& node : nodes) on_node(std::move(node));
                if (nodes.empty() && complete) on_node_deleted();
              }};
}

void NodePublisher::on_node(kube::Node node) {
  const std::string& version = node.metadata.resource_version;
  if (phase_ == Phase::kWriting) versions_during_write_.insert(version);
  if (!awaited_version_.empty() && version != awaited_version_) return;
  awaited_version_.clear();
  missing_ = false;
  node_ = std::move(node);
  const auto release = node_->metadata.labels.find(contract_.release);
  release_requested_ = release != node_->metadata.labels.end() && release->second == "true";
  {
    const MutexLock lock(labels_mutex_);
    labels_ = node_->metadata.labels;
    given_by_another_ = plugin::given_by_another(node_->capacity);
  }
  compare();
}

std::optional<kube::StringMap> NodePublisher::labels() const {
  const MutexLock lock(labels_mutex_);
  return labels_;
}

std::string NodePublisher::given_by_another() const {
  const MutexLock lock(labels_mutex_);
  return given_by_another_;
}

void NodePublisher::on_node_deleted() {
  awaited_version_.clear();
  settled_ = 0;
  node_.reset();
  if (missing_.exchange(true)) return;
  on_problem_(fmt::format("node {} does not exist; its cards are published once it is created",
                          node_name_.str()));
}

void NodePublisher::compare() {
  if (phase_ != Phase::kIdle || !report_ || !node_) return;
  MGPU_DEBUG_CHECK(generation_ > 0 && generation_ <= published_, "a report has a number");
  MGPU_DEBUG_CHECK(writes_ >= 0 && writes_ <= kWritesPerReport, "a report has a few writes only");
  NodeDifference found = difference(*report_, *node_, contract_, now_());
  // A taint on and off again makes kube-scheduler try pods again. The agent reports every few
  // seconds.
  if (found.taints && executor().now() < taint_allowed_) found.taints.reset();
  if (!found.problem.empty()) {
    report_once(write_problems_, fmt::format("node {}: {}", node_name_.str(), found.problem));
  }
  if (found.none()) {
    if (!found.problem.empty()) return;
    settled_ = generation_;
    writes_ = 0;
    failures_.reset();
    write_problems_.clear();
    return;
  }
  // The taint also changes with the node's CPU, and when its time has come.
  if (settled_.exchange(0) == generation_ && !found.only_taints()) {
    on_problem_(fmt::format("node {}: another writer changed what was published; it is corrected",
                            node_name_.str()));
    const Instant now = executor().now();
    const Instant allowed = std::max(now, correction_allowed_);
    correction_allowed_ = allowed + corrections_.next(allowed, executor().random());
    if (allowed > now) return wait(allowed - now);
  }
  if (writes_ < kWritesPerReport) return write(found);
  writes_ = kWritesPerReport - 1;  // one more write after the delay
  fail(fmt::format("node {}: writes succeed, but the Node object does not keep them",
                   node_name_.str()));
}

// One change at a time; the next one is found when the answer is compared.
kube::Request NodePublisher::next_write(const NodeDifference& difference) const {
  if (difference.cards)
    return kube::annotate_node(node_name_, contract_.node_cards, *difference.cards);
  if (difference.changes_status()) return kube::change_node_status(node_name_, difference.status);
  MGPU_DEBUG_CHECK(difference.only_taints() && node_, "there is a change to write");
  return kube::set_node_taints(*node_, *difference.taints);
}

void NodePublisher::write(const NodeDifference& difference) {
  MGPU_DEBUG_CHECK(phase_ == Phase::kIdle, "one write at a time");
  phase_ = Phase::kWriting;
  written_ = generation_;
  writes_taint_ = difference.only_taints();
  if (writes_taint_) taint_allowed_ = executor().now() + kTaintInterval;
  versions_during_write_.clear();
  relisted_during_write_ = false;
  transport_.send(next_write(difference), callbacks_.wrap([this](const kube::Response& response) {
    on_write_response(response);
  }));
}

void NodePublisher::on_write_response(const kube::Response& response) {
  MGPU_DEBUG_CHECK(phase_ == Phase::kWriting, "a response belongs to the write in progress");
  const std::string subject = fmt::format("publish the cards of node {}: ", node_name_.str());
  if (!response.ok() && writes_taint_) {
    // It is only a preference, and must not delay the cards. It is tried again after the interval.
    report_once(write_problems_,
                fmt::format("taint node {}: {}", node_name_.str(), kube::answer_text(response)));
    phase_ = Phase::kIdle;
    return compare();
  }
  if (!response.ok()) {
    return fail(subject + kube::answer_text(response), response.retry_after.value_or(Duration(0)));
  }
  auto written = kube::read_node(response.body);
  if (!written) return fail(subject + written.error().message);
  phase_ = Phase::kIdle;
  if (written_ == generation_) ++writes_;
  const std::string version = written->metadata.resource_version;
  // The watch may already have delivered this state of the node, or a later one.
  if (node_ && !versions_during_write_.contains(version)) {
    const bool unchanged = version == node_->metadata.resource_version;
    node_ = *std::move(written);
    if (!unchanged && !relisted_during_write_) awaited_version_ = version;
  }
  compare();
}

void NodePublisher::fail(const std::string& problem, Duration retry_after) {
  report_once(write_problems_, problem);
  const Duration least = std::min(retry_after, Duration(kube::kRetryAfterMax));
  wait(std::max(least, failures_.next(executor().now(), executor().random())));
}

void NodePublisher::wait(Duration delay) {
  MGPU_DEBUG_CHECK(phase_ != Phase::kWaiting, "one wait at a time");
  phase_ = Phase::kWaiting;
  executor().after(delay, callbacks_.wrap([this] {
    MGPU_DEBUG_CHECK(phase_ == Phase::kWaiting, "nothing is written during a wait");
    phase_ = Phase::kIdle;
    compare();
  }));
}

}  // namespace mgpu::plugin
