#include "plugin/agent/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/log.h"
#include "common/kube/client.h"
#include "plugin/agent/self_tests.h"

namespace mgpu::plugin {

using kube::Event;

Findings::Findings(Options options, kube::Transport& transport, kube::EventRecorder& events,
                   const Records& records)
    : options_(std::move(options)), transport_(transport), events_(events), records_(records) {}

void Findings::report_overuse(const Overuse& overuse) {
  const std::string message = fmt::format(
      "container {} uses {} MiB of card {} and holds {} MiB", overuse.owner.container,
      overuse.used.value(), overuse.grant.index.value(), overuse.grant.share.memory.value());
  log_warn("container exceeds its GPU memory",
           {{"pod", to_string(overuse.owner.pod)}, {"problem", message}});
  events_.on_pod(overuse.owner.pod, overuse.owner.uid,
                 {Event::Type::kWarning, "MGPUMemoryExceeded",
                  message + (options_.evict ? "; the pod is to be evicted"
                                            : "; request more memory, or use less")});
}

void Findings::report_bypass(const ContainerUse& use) {
  const std::string message = fmt::format(
      "container {} runs {} of its processes on card {} without MPS, which does not limit them: "
      "the program changed CUDA_MPS_PIPE_DIRECTORY, or it started while MPS did not run or before "
      "the node used it",
      use.owner.container, use.without_mps, use.grant.index.value());
  log_warn("container bypasses MPS", {{"pod", to_string(use.owner.pod)}, {"problem", message}});
  events_.on_pod(use.owner.pod, use.owner.uid, {Event::Type::kWarning, "MGPUBypass", message});
}

void Findings::report_uncounted(const ContainerUse& use, const std::string& driver) {
  const std::string message = fmt::format(
      "container {} uses {} MiB of card {} that the library in it has not counted: one of its "
      "programs has a libcuda of its own, or {} takes memory that no call of a program shows; they "
      "count against its {} MiB",
      use.owner.container, use.uncounted.value(), use.grant.index.value(), driver,
      use.grant.share.memory.value());
  log_warn("container uses memory outside of its limit",
           {{"pod", to_string(use.owner.pod)}, {"problem", message}});
  events_.on_pod(use.owner.pod, use.owner.uid, {Event::Type::kWarning, "MGPUBypass", message});
}

void Findings::report_blocked_daemons(const std::vector<MpsState>& states) {
  for (const MpsState& state : states) {
    const auto reported = std::exchange(blocked_by_[state.uuid], state.blocked_by);
    if (state.blocked_by == 0 || state.blocked_by == reported) continue;
    const std::string message = fmt::format(
        "process {} has a connection to the MPS daemon of card {} that sends nothing, and the "
        "daemon serves nobody else until it is closed; no program can start on the card",
        state.blocked_by, state.uuid.str());
    log_warn("an MPS daemon is blocked", {{"problem", message}});
    ProcessSampler sampler(options_.proc_folder);
    const auto samples = sampler.sample(
        {{.card = state.uuid, .pid = state.blocked_by, .memory = {}, .sm_percent = {}}});
    if (samples.empty() || !samples.front().container) continue;
    const auto bound = records_.bound();
    const auto record = std::ranges::find_if(
        bound, [&](const Record& one) { return one.owner->uid == samples.front().container->uid; });
    if (record == bound.end()) continue;
    events_.on_pod(record->owner->pod, record->owner->uid,
                   {Event::Type::kWarning, "MGPUMPSBlocked", message});
  }
}

void Findings::evict(const std::vector<Overuse>& overuses) {
  if (!options_.evict) return;
  for (const Overuse& overuse : overuses) {
    const PodRef& pod = overuse.owner.pod;
    kube::Client(transport_)
        .write(kube::evict(pod, overuse.owner.uid), "evict pod " + to_string(pod),
               [pod](const kube::ApiResult<void>& result) {
                 log_info("eviction of a pod that exceeds its GPU memory",
                          {{"pod", to_string(pod)},
                           {"outcome", result ? "evicted" : result.error().message}});
               });
  }
}

void Findings::report_unhealthy_cards(const std::vector<CardFacts>& before,
                                      const std::vector<CardFacts>& now) {
  const auto tested = [](const CardFacts& card) { return card.health == kSelfTestRuns; };
  for (const CardFacts& card : now) {
    const auto was = std::ranges::find(before, card.uuid, &CardFacts::uuid);
    // Nothing is wrong with a card that the profile reserves, that has MIG devices, or whose self
    // test runs.
    const bool meant = card.reserved() || card.partitioned() || tested(card);
    const bool reported = was != before.end() && !was->healthy() && !tested(*was);
    if (card.healthy() || meant || reported) continue;
    const std::string message = fmt::format("card {} ({}) is not healthy: {}", card.index.value(),
                                            card.uuid.str(), card.health);
    events_.on_node({Event::Type::kWarning, "MGPUCardUnhealthy", message});
    for (const Record& record : records_.bound()) {
      const auto on = std::ranges::find(record.cards, card.uuid, &CardGrant::uuid);
      if (on == record.cards.end()) continue;
      events_.on_pod(
          record.owner->pod, record.owner->uid,
          {Event::Type::kWarning, "MGPUCardUnhealthy",
           fmt::format("container {}: {}; if its programs fail, delete the pod so that it "
                       "is scheduled on a healthy card",
                       record.owner->container, message)});
    }
  }
}

void Findings::report_refusal(const Refusal& refusal) {
  log_warn("container may not start", {{"reason", std::string(to_string(refusal.reason))},
                                       {"pod", to_string(refusal.pod)},
                                       {"problem", refusal.message}});
  if (refusal.pod.name.empty()) return;
  events_.on_pod(
      refusal.pod, refusal.uid,
      {Event::Type::kWarning, std::string(event_reason(refusal.reason)), refusal.message});
}

}  // namespace mgpu::plugin
