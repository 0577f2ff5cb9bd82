#include "bench/trace/objects.h"

#include <algorithm>
#include <string_view>

#include "common/base/check.h"
#include "extender/placement/context.h"

namespace mgpu::trace {
namespace {

struct ModelMemory {
  std::string_view model;
  std::int64_t mib;
};
// The memory of the cards of openb in FGD's simulator. G2 and G3 are placeholders there.
constexpr ModelMemory kModelMemory[] = {{"G2", 20000},   {"G3", 30000},      {"T4", 15109},
                                        {"P100", 16280}, {"V100M16", 16160}, {"V100M32", 32510},
                                        {"A10", 22731}};
constexpr std::int64_t kReferenceMiB = 16384;
constexpr std::int64_t kStepMiB = 256;
// The factors 0.5 to 1.5, in quarters.
constexpr std::int64_t kFactorQuarters[] = {2, 3, 4, 5, 6};
constexpr std::int64_t kBoundlessMiB = std::int64_t{1} << 24;

Contract default_contract() {
  auto contract = Contract::for_domain(kDefaultResourceDomain);
  MGPU_CHECK(contract.has_value(), "the default domain is a domain");
  return std::move(*contract);
}

bool accepts(const TracePod& pod, const std::string& model) {
  return pod.models.empty() ||
         std::find(pod.models.begin(), pod.models.end(), model) != pod.models.end();
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

Objects::Objects(const Trace& trace, MemoryRule rule)
    : trace_(trace), rule_(rule), contract_(default_contract()) {
  share_memory_.reserve(trace.pods.size());
  for (const TracePod& pod : trace.pods) {
    const bool share = pod.cards > 0 && pod.milli < 1000;
    share_memory_.push_back(!share                      ? MiB(0)
                            : rule == MemoryRule::kNone ? MiB(1)
                                                        : memory_by_rule(pod));
  }
}

MiB Objects::card_memory(const std::string& model) const {
  if (rule_ == MemoryRule::kNone) return MiB(kBoundlessMiB);
  for (const ModelMemory& known : kModelMemory)
    if (known.model == model) return MiB(known.mib);
  return MiB(kReferenceMiB);
}

MiB Objects::smallest_card_of(const TracePod& pod) const {
  MiB smallest(kBoundlessMiB);
  for (const TraceNode& node : trace_.nodes)
    if (node.cards > 0 && accepts(pod, node.model))
      smallest = std::min(smallest, card_memory(node.model));
  return smallest;
}

MiB Objects::memory_by_rule(const TracePod& pod) const {
  const std::uint64_t draw = extender::tie_break_seed_of(PodUid(pod.name));
  const std::int64_t quarters = kFactorQuarters[draw % std::size(kFactorQuarters)];
  const std::int64_t wanted = std::min(kReferenceMiB, kReferenceMiB * pod.milli * quarters / 4000);
  const std::int64_t rounded = (wanted + kStepMiB - 1) / kStepMiB * kStepMiB;
  const std::int64_t most = smallest_card_of(pod).value() / kStepMiB * kStepMiB;
  return MiB(std::min(rounded, most));
}

extender::NodeFacts Objects::node_facts(std::size_t index, NodeName name) const {
  const TraceNode& node = trace_.nodes[index];
  extender::NodeFacts facts{
      .name = std::move(name), .cards = {}, .allocatable = node.resources, .problem = {}};
  for (std::int32_t card = 0; card < node.cards; ++card)
    facts.cards.push_back({.index = CardIndex(card),
                           .uuid = CardUuid(node.name + "-" + std::to_string(card)),
                           .model = node.model,
                           .memory = card_memory(node.model)});
  return facts;
}

kube::Pod Objects::pod(std::size_t index, const std::string& uid) const {
  const TracePod& from = trace_.pods[index];
  kube::Pod pod;
  pod.metadata.name_space = "trace";
  pod.metadata.name = uid;
  pod.metadata.uid = uid;
  kube::Container& container = pod.containers.emplace_back();
  container.name = "main";
  container.requests["cpu"] = std::to_string(from.resources.cpu.value()) + "m";
  container.requests["memory"] = std::to_string(from.resources.memory.value()) + "Mi";
  if (from.cards == 0) return pod;
  container.limits[contract_.core_resource] = std::to_string(from.total_milli() / 10);
  if (from.milli < 1000) {
    container.limits[contract_.memory_resource] =
        std::to_string(share_memory_[index].value() * from.cards);
    pod.metadata.annotations[contract_.container_multiple_gpu] = std::to_string(from.cards);
  }
  if (!from.models.empty()) pod.metadata.annotations[contract_.gpu_model] = joined(from.models);
  return pod;
}

}  // namespace mgpu::trace
