#include "extender/web/waiting_pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/web/limits.h"

namespace mgpu::extender {

struct WaitingPods::Pod {
  PodRef ref;
  std::string created;
  std::int32_t priority = 0;
  std::vector<ContainerRequest> containers;
  std::string reason;
  std::string message;
  std::string since;
  std::string nominated;
};

// A pod without cards has no uid.
struct WaitingPods::Seen {
  std::string uid;
  std::shared_ptr<const Pod> pod;
};

namespace {

std::string cut(std::string text) {
  if (text.size() <= kWaitingMessageBytesMax) return text;
  return std::string(cut_text(text, kWaitingMessageBytesMax)) + "...";
}

}  // namespace

WaitingPods::WaitingPods(kube::Transport& transport, const Contract& contract)
    : transport_(transport),
      contract_(contract),
      detailed_(std::make_shared<std::atomic<std::size_t>>(0)) {}

WaitingPods::~WaitingPods() = default;

void WaitingPods::follow() {
  if (reflector_) return;
  kube::ReflectorEvents events;
  events.on_problem = [this](const std::string& problem) {
    const MutexLock lock(mutex_);
    problem_ = cut(problem);
    ++version_;
  };
  events.on_unreadable = [this](const std::string& why) {
    if (unreadable_.note(why)) log_warn("waiting pod is not shown", {{"problem", why}});
  };
  reflector_ = std::make_unique<kube::Reflector>("waiting pods", kube::unbound_pods(), transport_,
                                                 consumer(), std::move(events));
  reflector_->start();
}

void WaitingPods::leave() {
  reflector_.reset();
  const MutexLock lock(mutex_);
  listed_ = false;
  problem_.clear();
  pods_.clear();
  ++version_;
}

kube::Consumer<WaitingPods::Seen> WaitingPods::consumer() {
  // The analysis does not see that `change` runs while `lock` holds mutex_.
  const auto changed = [this](const auto& change) {
    const MutexLock lock(mutex_);
    problem_.clear();
    change();
    ++version_;
  };
  return {.read = [this](std::string_view json) { return read(json); },
          .apply =
              [this, changed](Seen seen) {
                if (seen.uid.empty()) return;
                changed([&]() MGPU_NO_THREAD_ANALYSIS {
                  pods_.insert_or_assign(std::move(seen.uid), std::move(seen.pod));
                });
              },
          .remove =
              [this, changed](const Seen& seen) {
                changed([&]() MGPU_NO_THREAD_ANALYSIS { pods_.erase(seen.uid); });
              },
          .relist =
              [this, changed](std::vector<Seen> all, bool) {
                changed([&]() MGPU_NO_THREAD_ANALYSIS {
                  pods_.clear();
                  listed_ = true;
                  for (Seen& seen : all) {
                    if (!seen.uid.empty()) pods_.emplace(std::move(seen.uid), std::move(seen.pod));
                  }
                });
              }};
}

Result<WaitingPods::Seen> WaitingPods::read(std::string_view json) const {
  auto pod = kube::read_pod(json);
  if (!pod) return pod.error();
  auto request = read_containers(*pod, contract_, MiB(1));
  // For a request that cannot be read, the extender reports the problem; kube-scheduler's
  // message has the sentence.
  if (request && request->empty()) return Seen{};
  Seen seen{.uid = pod->metadata.uid, .pod = nullptr};
  if (detailed_->fetch_add(1) >= 2 * kWaitingPodsMax) {
    detailed_->fetch_sub(1);
    return seen;
  }
  // A pod of which this cannot be read has no message.
  auto details = kube::read_pod_scheduling(json);
  kube::PodScheduling scheduling = details ? *std::move(details) : kube::PodScheduling();
  seen.pod = {new Pod{.ref = pod->ref(),
                      .created = cut(std::move(scheduling.created)),
                      .priority = pod->priority,
                      .containers = request ? std::move(request->containers)
                                            : std::vector<ContainerRequest>(),
                      .reason = cut(std::move(scheduling.scheduled.reason)),
                      .message = cut(std::move(scheduling.scheduled.message)),
                      .since = cut(std::move(scheduling.since)),
                      .nominated = pod->nominated_node},
              [detailed = detailed_](const Pod* old) {
                delete old;
                detailed->fetch_sub(1);
              }};
  return seen;
}

// The watch of the API server must not wait until the text is written.
WaitingPods::Copy WaitingPods::copy() const {
  const MutexLock lock(mutex_);
  Copy copy{listed_, problem_, pods_.size(), {}};
  for (const auto& [uid, pod] : pods_) {
    if (pod) copy.pods.push_back(pod);
  }
  return copy;
}

void WaitingPods::append(std::string& out, const Pod& pod) {
  const auto to = std::back_inserter(out);
  fmt::format_to(to, R"({}["{}","{}","{}",{},[)", out.empty() ? "" : ",",
                 json_escaped(pod.ref.name_space), json_escaped(pod.ref.name),
                 json_escaped(pod.created), pod.priority);
  for (const ContainerRequest& container : pod.containers) {
    fmt::format_to(to, R"({}["{}",{},{},{}])", &container == &pod.containers.front() ? "" : ",",
                   json_escaped(container.name), container.cards, container.per_card.core.value(),
                   container.whole ? -1 : container.per_card.memory.value());
  }
  fmt::format_to(to, R"(],"{}","{}","{}","{}"])", json_escaped(pod.reason),
                 json_escaped(pod.message), json_escaped(pod.since), json_escaped(pod.nominated));
}

std::string WaitingPods::json() const {
  Copy copy = this->copy();
  std::ranges::sort(copy.pods, [](const auto& a, const auto& b) {
    return a->created != b->created ? a->created < b->created : a->ref < b->ref;
  });
  std::string pods;
  std::size_t sent = 0;
  while (sent < std::min(copy.pods.size(), kWaitingPodsMax) && pods.size() < kWaitingBytesMax) {
    append(pods, *copy.pods[sent++]);
  }
  std::string out = fmt::format(R"({{"listed":{},)", copy.listed);
  const auto to = std::back_inserter(out);
  if (!copy.problem.empty()) {
    fmt::format_to(to, R"("problem":"{}",)", json_escaped(copy.problem));
  }
  if (copy.all > sent) fmt::format_to(to, R"("more":{},)", copy.all - sent);
  return out + "\"pods\":[" + pods + "]}";
}

}  // namespace mgpu::extender
