#include "extender/cluster_events.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/utc_text.h"
#include "common/contract/contract.h"
#include "common/kube/limits.h"
#include "extender/inspect/views.h"
#include "extender/verbs/named_cards.h"

namespace mgpu::extender {
namespace {

using kube::Event;

std::string drift_sentence(const Claim& claim) {
  const DriftTexts texts = texts_of(*claim.drift);
  return fmt::format("{} ({}): {}; {}", texts.sentence, texts.name, claim.drift_detail,
                     texts.remedy);
}

// What to do comes after `problem`, which a webhook may have made long.
std::string unsettled_sentence(const std::string& problem) {
  return fmt::format(
      "mgpu-extender cannot patch pods/status of this pod ({}), so an earlier bind of it may still "
      "succeed; the pod can be scheduled nevertheless, but an administrator should let the "
      "extender's service account patch pods/status",
      cut_text(problem, kube::kEventMessageMax / 2));
}

}  // namespace

ClusterEvents::ClusterEvents(const LedgerReader& ledger, const Contract& contract,
                             NamingPods& naming, kube::Transport& transport,
                             const std::string& process, std::function<bool()> decides,
                             std::function<std::vector<UnsettledPod>()> unsettled)
    : ledger_(ledger),
      contract_(contract),
      naming_(naming),
      executor_(transport.executor()),
      decides_(std::move(decides)),
      unsettled_(std::move(unsettled)),
      recorder_({.component = "mgpu-extender", .host = process}, transport, utc_now) {}

void ClusterEvents::start() {
  executor_.after(kClusterEventsInterval, polls_.wrap([this] {
    poll();
    start();
  }));
}

void ClusterEvents::poll() {
  if (!decides_()) return;
  if (dropped() > 0 && !std::exchange(logged_dropped_, true)) {
    log_warn("an Event could not be written; kubectl mgpu doctor names rights that are missing",
             {{"metric", "mgpu_extender_events_dropped_total"}});
  }
  compare_names();
  Findings findings;
  find_pods(findings);
  find_unsettled(findings);
  find_nodes(findings);
  std::erase_if(known_, [&](const auto& known) { return !findings.contains(known.first); });
  std::size_t more = kClusterEventsPerPoll;
  for (const auto& [key, finding] : findings) {
    Known& known = known_[key];
    if (known.change != finding.change) {
      known = {finding.change};
    } else if (!known.written && more > 0) {
      --more;
      finding.write();
      known.written = true;
    }
  }
}

void NamingPods::add(const BindablePod& pod) {
  const CardSelector& selector = pod.request.request.selector;
  if (!selector.empty() && pods_.size() < kClusterEventsBoundMax)
    pods_.push_back({pod.ref, pod.uid, selector});
}

void ClusterEvents::compare_names() {
  for (std::size_t i = 0; i < kClusterEventsPerPoll && !naming_.pods_.empty(); ++i) {
    const NamingPods::Pod pod = std::move(naming_.pods_.front());
    naming_.pods_.pop_front();
    const std::string problem = unmatched_names(ledger_, pod.selector, contract_);
    if (problem.empty()) continue;
    log_warn("a pod names cards that the cluster does not have",
             {{"pod", to_string(pod.ref)}, {"problem", problem}});
    recorder_.on_pod(pod.ref, pod.uid, {Event::Type::kWarning, "MGPUUnknownCardName", problem});
  }
}

void ClusterEvents::find_pods(Findings& findings) {
  for (const ClaimView& view : ledger_.drifting(kClusterEventsFindingsMax)) {
    const Claim& claim = view.claim;
    if (view.phase != Phase::kBound) continue;
    findings["pod " + claim.uid.str()] = {
        std::string(to_string(*claim.drift)), [this, claim] {
          recorder_.on_pod(claim.pod, claim.uid,
                           {Event::Type::kWarning, "MGPUDrift", drift_sentence(claim)});
        }};
  }
}

// One Event for each pod, whatever the API server says next.
void ClusterEvents::find_unsettled(Findings& findings) {
  for (const UnsettledPod& found : unsettled_()) {
    findings["unsettled pod " + found.uid.str()] = {
        "cannot be changed", [this, found] {
          recorder_.on_pod(
              found.pod, found.uid,
              {Event::Type::kWarning, "MGPUCannotChangePod", unsettled_sentence(found.problem)});
        }};
  }
}

void ClusterEvents::find_nodes(Findings& findings) {
  const auto add = [&](const NodeName& node, const char* reason, const std::string& sentence) {
    findings[fmt::format("node {} {}", node.str(), reason)] = {
        sentence, [this, node, reason, sentence] {
          recorder_.on_node(node, {Event::Type::kWarning, reason, sentence});
        }};
  };
  for (const NodeProblem& found : ledger_.nodes_with_problems(kClusterEventsFindingsMax)) {
    if (!found.problem.empty()) add(found.node, "MGPUBadNodeAnnotation", found.problem);
    if (found.overfull.empty()) continue;
    const auto view = ledger_.node(found.node);
    if (view && !view->overfull.empty())
      add(found.node, "MGPUCardsOverfull", overfull_sentence(*view, view->overfull));
  }
}

}  // namespace mgpu::extender
