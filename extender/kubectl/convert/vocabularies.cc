#include <fmt/format.h>

#include <algorithm>

#include "common/base/text.h"
#include "extender/kubectl/convert/pod.h"

namespace mgpu::kubectl::convert {
namespace {

constexpr auto kMaxCards = static_cast<std::int64_t>(kCardsPerNodeMax);

const std::string* annotation_of(const Pod& pod, std::string_view key) {
  const auto found = pod.annotations.find(key);
  return found == pod.annotations.end() ? nullptr : &found->second;
}

// --- HAMi ----------------------------------------------------------------------------------------

constexpr std::string_view kNodePolicy = "hami.io/node-scheduler-policy";
constexpr std::string_view kCardPolicy = "hami.io/gpu-scheduler-policy";

Error both_are_set(std::string_view theirs, std::string_view ours) {
  return error(
      fmt::format("annotations {} and {} are both set; expected one of them", theirs, ours));
}

// HAMi's chart fills one node after the other and spreads over the cards of a node, unless its
// values are different.
Result<void> plan_policies(const Pod& pod, const ConvertOptions& options, AnnotationPlan& plan) {
  const std::string* const node = annotation_of(pod, kNodePolicy);
  const std::string* const card = annotation_of(pod, kCardPolicy);
  if (node == nullptr && card == nullptr) return {};
  for (const auto& [key, value] : {std::pair(kNodePolicy, node), std::pair(kCardPolicy, card)}) {
    if (value == nullptr) continue;
    plan.removed.emplace_back(key);
    if (*value == "binpack" || *value == "spread") continue;
    return error(fmt::format("annotation {} is \"{}\"; expected binpack or spread", key, *value));
  }
  plan.added[options.contract.policy] =
      (node == nullptr ? "binpack" : *node) + "/" + (card == nullptr ? "spread" : *card);
  return {};
}

Result<AnnotationPlan> hami_annotations(const Pod& pod, const ConvertOptions& options) {
  const Contract& contract = options.contract;
  // And what is nearest to it.
  const std::pair<const char*, std::string> without_equal[] = {
      {"nvidia.com/use-gputype", contract.gpu_model + " with names of models"},
      {"nvidia.com/nouse-gputype", contract.gpu_model_exclude + " with names of models"},
      {"nvidia.com/use-gpuindexes", "a pod without it"},
      {"nvidia.com/nouse-gpuindexes", "a pod without it"},
      {"nvidia.com/numa-bind", "a pod without it"},
      {"nvidia.com/vgpu-mode", "a pod without it"}};
  for (const auto& [key, nearest] : without_equal) {
    if (annotation_of(pod, key) == nullptr) continue;
    return error(fmt::format("annotation {} has no equal in mgpu; expected {}", key, nearest));
  }
  const std::pair<std::string_view, std::string_view> keys[] = {
      {"nvidia.com/use-gpuuuid", contract.gpu_uuid},
      {"nvidia.com/nouse-gpuuuid", contract.gpu_uuid_exclude},
      {kNodePolicy, contract.policy},
      {kCardPolicy, contract.policy}};
  AnnotationPlan plan;
  for (const auto& [theirs, ours] : keys) {
    const std::string* const value = annotation_of(pod, theirs);
    if (value == nullptr) continue;
    if (annotation_of(pod, ours) != nullptr) return both_are_set(theirs, ours);
    if (ours == contract.policy) continue;
    plan.added[std::string(ours)] = *value;
    plan.removed.emplace_back(theirs);
  }
  if (auto ok = plan_policies(pod, options, plan); !ok) return ok.error();
  return plan;
}

// gpu, gpumem, gpumem-percentage, gpucores
Result<Plan> hami_plan(const Amounts& amounts, const Pod&, const ConvertOptions& options) {
  const auto [gpus, memory, percent, core] =
      std::tuple(amounts.of[0], amounts.of[1], amounts.of[2], amounts.of[3]);
  const bool part = memory + percent + core > 0;
  // Without nvidia.com/gpu, HAMi gives a container that requests a part of a card one card.
  const std::int64_t cards = amounts.has("nvidia.com/gpu") ? gpus : part ? 1 : 0;
  if (cards == 0 && part) {
    return error(
        "requests nvidia.com/gpu 0 and a part of a card; expected nvidia.com/gpu 1 or more");
  }
  if (cards == 0) return Plan{};
  if (cards > kMaxCards) {
    return error(fmt::format("requests nvidia.com/gpu {}; expected at most {}", cards, kMaxCards));
  }
  constexpr std::string_view kAtMost100 = "requests nvidia.com/{} {}; expected at most 100";
  if (core > 100) return error(fmt::format(kAtMost100, "gpucores", core));
  if (percent > 100) return error(fmt::format(kAtMost100, "gpumem-percentage", percent));
  if (memory > 0 && percent > 0) {
    return error(
        "requests nvidia.com/gpumem and nvidia.com/gpumem-percentage; expected one of them");
  }
  // Without gpumem and gpumem-percentage, HAMi gives all memory of a card.
  const std::int64_t percent_or_all = percent > 0 ? percent : 100;
  if (memory == 0 && percent_or_all == 100 && (core == 0 || core == 100)) {
    return Plan{.cards = cards, .core = cards * 100};
  }
  if (memory == 0 && options.hami_card_memory_mib == 0) {
    return error(
        fmt::format("requests {} percent of the memory of a card; expected "
                    "nvidia.com/gpumem, or the memory of the cards in "
                    "--hami-card-memory-mib",
                    percent_or_all));
  }
  if (core == 0 && options.hami_core == 0) {
    return error(
        "requests a part of the memory of a card without nvidia.com/gpucores; expected both, or a "
        "default in --hami-core");
  }
  const std::int64_t of_each =
      memory > 0 ? memory : options.hami_card_memory_mib * percent_or_all / 100;
  return Plan{.cards = cards,
              .core = cards * (core > 0 ? core : options.hami_core),
              .memory = cards * of_each};
}

// --- aliyun --------------------------------------------------------------------------------------

Result<std::int64_t> aliyun_cards(const Pod& pod) {
  const auto found = pod.labels.find("aliyun.com/gpu-count");
  if (found == pod.labels.end()) return std::int64_t{1};
  const std::string& text = found->second;
  const auto cards = parse_number<std::int64_t>(text);
  if (cards && text.front() != '0' && *cards >= 1 && *cards <= kMaxCards) return *cards;
  return error(fmt::format("label aliyun.com/gpu-count is \"{}\"; expected a number from 1 to {}",
                           text, kMaxCards));
}

Result<AnnotationPlan> aliyun_annotations(const Pod& pod, const ConvertOptions&) {
  const auto cards = aliyun_cards(pod);
  if (!cards) return cards.error();
  return AnnotationPlan{};
}

// gpu-mem, gpu-core.percentage
Result<Plan> aliyun_plan(const Amounts& amounts, const Pod& pod, const ConvertOptions& options) {
  const std::int64_t memory = amounts.of[0];
  const std::int64_t core = amounts.of[1];
  const std::int64_t cards = *aliyun_cards(pod);
  if (memory == 0 && core == 0) return Plan{};
  if (memory == 0) {
    return error(
        "requests aliyun.com/gpu-core.percentage without aliyun.com/gpu-mem; expected both");
  }
  if (core > 100) {
    return error(
        fmt::format("requests aliyun.com/gpu-core.percentage {}; expected at most 100", core));
  }
  if (core > 0 && cards > 1) {
    return error(
        fmt::format("requests aliyun.com/gpu-core.percentage, and label aliyun.com/gpu-count is "
                    "{}; expected one of them",
                    cards));
  }
  if (memory % cards != 0) {
    return error(
        fmt::format("requests aliyun.com/gpu-mem {} of {} cards; expected a multiple of "
                    "their number",
                    memory, cards));
  }
  if (core == 0 && options.aliyun_core == 0) {
    return error(
        "requests aliyun.com/gpu-mem without aliyun.com/gpu-core.percentage; expected both, or a "
        "default in --aliyun-core");
  }
  return Plan{.cards = cards,
              .core = core > 0 ? core : cards * options.aliyun_core,
              .memory = memory * options.aliyun_unit_mib};
}

// --- tencent -------------------------------------------------------------------------------------

constexpr std::string_view kCoreLimit = "tencent.com/vcuda-core-limit";
constexpr std::int64_t kBlockMiB = 256;

Result<AnnotationPlan> tencent_annotations(const Pod& pod, const ConvertOptions&) {
  AnnotationPlan plan;
  if (annotation_of(pod, kCoreLimit) != nullptr) plan.removed.emplace_back(kCoreLimit);
  return plan;
}

// vcuda-core, vcuda-memory
Result<Plan> tencent_plan(const Amounts& amounts, const Pod& pod, const ConvertOptions&) {
  const std::int64_t core = amounts.of[0];
  const std::int64_t blocks = amounts.of[1];
  if (core == 0 && blocks == 0) return Plan{};
  if (core == 0) {
    return error("requests tencent.com/vcuda-memory without tencent.com/vcuda-core; expected both");
  }
  const std::string requests_core = fmt::format("requests tencent.com/vcuda-core {}", core);
  if (core < 100 && blocks == 0) {
    return error(requests_core + " without tencent.com/vcuda-memory; expected both");
  }
  if (core >= 100 && core % 100 != 0) {
    return error(requests_core + "; expected less than 100, or a multiple of 100");
  }
  if (core > kMaxCards * 100) {
    return error(fmt::format("{}; expected at most {}", requests_core, kMaxCards * 100));
  }
  // gpu-admission gives whole cards to a container that requests 100 or more, whatever its memory.
  if (core >= 100) return Plan{.cards = core / 100, .core = core};
  const std::string* const limit = annotation_of(pod, kCoreLimit);
  if (limit != nullptr && !limit->empty() && *limit != std::to_string(core)) {
    return error(fmt::format("{}, and annotation {} is \"{}\"; expected equal amounts",
                             requests_core, kCoreLimit, *limit));
  }
  return Plan{.cards = 1, .core = core, .memory = blocks * kBlockMiB};
}

}  // namespace

const std::vector<Vocabulary>& vocabularies() {
  static const std::vector<Vocabulary> all = {
      {.names = {"nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage",
                 "nvidia.com/gpucores"},
       .others = {"nvidia.com/priority"},
       .plan_annotations = hami_annotations,
       .plan = hami_plan},
      {.names = {"aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage"},
       .others = {"aliyun.com/gpu-count", "aliyun.com/gpu-core.tflops"},
       .plan_annotations = aliyun_annotations,
       .plan = aliyun_plan},
      {.names = {"tencent.com/vcuda-core", "tencent.com/vcuda-memory"},
       .others = {},
       .plan_annotations = tencent_annotations,
       .plan = tencent_plan}};
  return all;
}

const std::vector<OtherRequest>& other_requests() {
  static const std::vector<OtherRequest> all = {{"gpu-fraction", "KAI"},
                                                {"gpu-memory", "KAI"},
                                                {"volcano.sh/vgpu-", "Volcano"},
                                                {"koordinator.sh/gpu", "Koordinator"},
                                                {"elasticgpu.io/", "elastic-gpu"},
                                                {"nvidia.com/mig-", "MIG"},
                                                {"nvidia.com/gpu.shared", "time slicing"}};
  return all;
}

std::vector<std::string> foreign_resources() {
  std::vector<std::string> names;
  for (const Vocabulary& vocabulary : vocabularies()) {
    for (const auto* some : {&vocabulary.names, &vocabulary.others}) {
      names.insert(names.end(), some->begin(), some->end());
    }
  }
  return names;
}

}  // namespace mgpu::kubectl::convert
