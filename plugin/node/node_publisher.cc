#include "plugin/node/node_publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "common/kube/limits.h"
#include "common/kube/object_json.h"
#include "common/kube/reflector.h"
#include "common/kube/request.h"
#include "plugin/node/backoff.h"
#include "plugin/node/node_difference.h"
#include "plugin/node/utc_time.h"

namespace mgpu::plugin {
namespace {

// The annotation, and the status.
constexpr int kWritesOfAReport = 2;

// Sentences that were said and need not be said again.
class ReportedOnce {
 public:
  // A server that finds ever new words is not quoted without end.
  bool is_new(const std::string& sentence) {
    constexpr std::size_t kMost = 16;
    return said_.size() < kMost && said_.insert(sentence).second;
  }
  void forget() { said_.clear(); }

 private:
  std::set<std::string> said_;
};

}  // namespace

struct NodePublisher::State : std::enable_shared_from_this<State> {
  enum class Phase { kIdle, kWriting, kWaiting };

  State(NodeName its_node, Contract its_contract, kube::Transport& its_transport,
        std::function<void(const std::string&)> its_on_problem,
        std::function<std::string()> its_now)
      : node_name(std::move(its_node)),
        contract(std::move(its_contract)),
        transport(its_transport),
        on_problem(std::move(its_on_problem)),
        now(its_now ? std::move(its_now) : std::function<std::string()>(utc_now)),
        reflector("node " + node_name.str(), kube::one_node(node_name), transport, consumer(),
                  {.on_problem = [this](const std::string& why) { tell(reads_told, why); },
                   .on_unreadable = [this](const std::string& why) { tell(reads_told, why); }}) {}
  ~State() { executor().cancel(timer); }

  Executor& executor() const { return transport.executor(); }
  void tell(ReportedOnce& told, const std::string& problem) const;

  void take(NodeReport new_report, std::uint64_t its_generation);
  kube::Consumer<kube::Node> consumer();
  void take(kube::Node shown);
  void lose_node();

  void look();
  void settle();
  Duration until_correction_allowed();
  void write(const NodeDifference& difference);
  void on_answer(const kube::Response& answer);
  void take_answer(kube::Node answered);
  void fail(const std::string& problem, Duration at_least);
  void wait(Duration delay);

  const NodeName node_name;
  const Contract contract;
  kube::Transport& transport;
  const std::function<void(const std::string&)> on_problem;
  const std::function<std::string()> now;

  // Reports are counted, so that an older one's end does not pass for a newer one's.
  std::atomic<std::uint64_t> published = 0;
  std::atomic<std::uint64_t> settled = 0;  // the report that stands on the node; 0: none
  std::atomic<bool> missing = false;

  // On the executor.
  Phase phase = Phase::kIdle;
  std::optional<NodeReport> report;
  std::uint64_t generation = 0;  // of `report`
  std::optional<kube::Node> node;
  // The watch lags behind our own writes: until it has shown this version, what it shows is older
  // than what we know. Versions are only compared for equality.
  std::string awaited_version;
  std::set<std::string> versions_seen;  // while a write was under way
  bool relisted = false;                // the same
  std::uint64_t written = 0;            // the report that the write under way is of
  int writes = 0;                       // accepted of this report since it last stood on the node
  Backoff failures;
  Backoff corrections;
  Instant correction_allowed{};
  Executor::TimerId timer = 0;
  mutable ReportedOnce reads_told;
  mutable ReportedOnce writes_told;
  kube::Reflector reflector;  // ends first: it calls the others
};

void NodePublisher::State::tell(ReportedOnce& told, const std::string& problem) const {
  if (on_problem && told.is_new(problem)) on_problem(problem);
}

void NodePublisher::State::take(NodeReport new_report, std::uint64_t its_generation) {
  if (its_generation <= generation) return;
  report = std::move(new_report);
  generation = its_generation;
  writes = 0;
  look();
}

kube::Consumer<kube::Node> NodePublisher::State::consumer() {
  return {.read = kube::read_node,
          .apply =
              [this](kube::Node shown) {
                reads_told.forget();
                take(std::move(shown));
              },
          .remove = [this](const kube::Node&) { lose_node(); },
          .relist =
              [this](std::vector<kube::Node> nodes, bool complete) {
                if (complete) reads_told.forget();
                awaited_version.clear();
                relisted = true;
                for (kube::Node& shown : nodes) take(std::move(shown));
                if (nodes.empty() && complete) lose_node();
              }};
}

void NodePublisher::State::take(kube::Node shown) {
  const std::string& version = shown.metadata.resource_version;
  if (phase == Phase::kWriting) versions_seen.insert(version);
  if (!awaited_version.empty() && version != awaited_version) return;
  awaited_version.clear();
  missing = false;
  node = std::move(shown);
  look();
}

void NodePublisher::State::lose_node() {
  awaited_version.clear();
  settled = 0;
  node.reset();
  if (missing.exchange(true)) return;
  if (on_problem) {
    on_problem(
        fmt::format("node {} does not exist at the API server: its cards are written when "
                    "it appears",
                    node_name.str()));
  }
}

void NodePublisher::State::look() {
  if (phase != Phase::kIdle || !report || !node) return;
  const NodeDifference found = difference(*report, *node, contract, now());
  if (!found.problem.empty()) {
    tell(writes_told, fmt::format("node {}: {}", node_name.str(), found.problem));
  }
  if (found.none()) return found.problem.empty() ? settle() : void();
  const bool was_changed = settled.exchange(0) == generation;
  const Duration delay = was_changed ? until_correction_allowed() : Duration(0);
  if (delay > Duration(0)) return wait(delay);
  if (writes < kWritesOfAReport) return write(found);
  writes = kWritesOfAReport - 1;  // one more after the wait
  fail(fmt::format("node {}: what is written of its cards is accepted and does not stay",
                   node_name.str()),
       Duration(0));
}

void NodePublisher::State::settle() {
  settled = generation;
  writes = 0;
  failures.reset();
  writes_told.forget();
}

Duration NodePublisher::State::until_correction_allowed() {
  if (on_problem) {
    on_problem(
        fmt::format("node {}: what stands there of its cards was changed by another writer "
                    "and is written again",
                    node_name.str()));
  }
  const Instant at = executor().now();
  const Instant allowed = std::max(at, correction_allowed);
  correction_allowed = allowed + corrections.next(allowed, executor().random());
  return allowed - at;
}

void NodePublisher::State::write(const NodeDifference& difference) {
  phase = Phase::kWriting;
  written = generation;
  versions_seen.clear();
  relisted = false;
  kube::Request request =
      difference.cards ? kube::annotate_node(node_name, contract.node_cards, *difference.cards)
                       : kube::change_node_status(node_name, difference.status);
  transport.send(std::move(request), [weak = weak_from_this()](const kube::Response& answer) {
    if (const auto self = weak.lock()) self->on_answer(answer);
  });
}

void NodePublisher::State::on_answer(const kube::Response& answer) {
  const std::string subject = fmt::format("write the cards of node {}: ", node_name.str());
  if (!answer.ok()) {
    return fail(subject + kube::answer_text(answer), answer.retry_after.value_or(Duration(0)));
  }
  auto answered = kube::read_node(answer.body);
  if (!answered) return fail(subject + answered.error().message, Duration(0));
  phase = Phase::kIdle;
  if (written == generation) ++writes;
  take_answer(*std::move(answered));
  look();
}

// The node as written, unless the watch has shown that state already, or a later one.
void NodePublisher::State::take_answer(kube::Node answered) {
  const std::string version = answered.metadata.resource_version;
  if (!node || versions_seen.contains(version)) return;
  const bool unchanged = version == node->metadata.resource_version;
  node = std::move(answered);
  if (!unchanged && !relisted) awaited_version = version;
}

void NodePublisher::State::fail(const std::string& problem, Duration at_least) {
  tell(writes_told, problem);
  const Duration most = kube::kRetryAfterMax;
  wait(std::max(std::min(at_least, most), failures.next(executor().now(), executor().random())));
}

void NodePublisher::State::wait(Duration delay) {
  phase = Phase::kWaiting;
  timer = executor().after(delay, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->phase = Phase::kIdle;
    self->look();
  });
}

NodePublisher::NodePublisher(NodeName node, Contract contract, kube::Transport& transport,
                             std::function<void(const std::string&)> on_problem,
                             std::function<std::string()> now)
    : state_(std::make_shared<State>(std::move(node), std::move(contract), transport,
                                     std::move(on_problem), std::move(now))) {
  state_->reflector.start();
}

NodePublisher::~NodePublisher() = default;

void NodePublisher::publish(NodeReport report) {
  const std::uint64_t generation = ++state_->published;
  state_->executor().post([weak = std::weak_ptr(state_), report = std::move(report), generation] {
    if (const auto state = weak.lock()) state->take(report, generation);
  });
}

bool NodePublisher::settled() const {
  const std::uint64_t published = state_->published;
  return published != 0 && state_->settled == published;
}

bool NodePublisher::node_missing() const {
  return state_->missing;
}

}  // namespace mgpu::plugin
