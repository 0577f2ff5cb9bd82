#include "common/contract/gpu_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"

namespace mgpu {

namespace {

constexpr auto kCardsMax = static_cast<std::int64_t>(kCardsPerNodeMax);

const std::string* find(const kube::StringMap& map, std::string_view key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

// The amounts that one container requests.
struct Amounts {
  std::string who;  // names the container in sentences
  std::int64_t core = 0;
  std::int64_t memory = 0;
  std::optional<std::int32_t> count;  // its number in container-multiple-gpu
  const Contract& contract;

  std::string requests_core() const {
    return fmt::format("{} requests {} {}", who, contract.core_resource, core);
  }
  std::string requests_memory() const {
    return fmt::format("{} requests {} {}", who, contract.memory_resource, memory);
  }
};

// The amount in the limits, or in the requests if there is no limit.
Result<std::int64_t> read_amount(const kube::Container& container, const std::string& who,
                                 const std::string& resource) {
  using Amount = std::optional<std::int64_t>;
  const auto read = [&](std::string_view side, const kube::StringMap& amounts) -> Result<Amount> {
    const std::string* const text = find(amounts, resource);
    if (text == nullptr) return Amount();
    const auto amount =
        parse_whole_quantity(fmt::format("{} {} of {}", side, resource, who), *text);
    if (!amount) return amount.error();
    return Amount(*amount);
  };
  const auto limit = read("limits", container.limits);
  if (!limit) return limit.error();
  const auto request = read("requests", container.requests);
  if (!request) return request.error();
  if (*limit && *request && *limit != *request) {
    return error(fmt::format("{} has limits {} {} and requests {}; they must be equal", who,
                             resource, **limit, **request));
  }
  return limit->value_or(request->value_or(0));
}

Result<std::int64_t> card_count(const Amounts& amounts) {
  if (amounts.count) return std::int64_t{*amounts.count};
  if (amounts.core <= kWholeCard.value()) return std::int64_t{1};
  if (amounts.core % kWholeCard.value() != 0) {
    return error(fmt::format(
        "{}; over 100 it must be a multiple of 100, or annotation {} must contain its number of "
        "cards",
        amounts.requests_core(), amounts.contract.container_multiple_gpu));
  }
  const std::int64_t cards = amounts.core / kWholeCard.value();
  if (cards <= kCardsMax) return cards;
  return error(fmt::format("{}, that is {} cards; a container may have at most {}",
                           amounts.requests_core(), cards, kCardsMax));
}

// Without memory for whole cards.
Result<Share> share_per_card(const Amounts& amounts, std::int64_t cards, MiB min_memory) {
  constexpr std::string_view kIndivisible = "{}, which is not divisible by its {} cards";
  if (amounts.core % cards != 0) {
    return error(fmt::format(kIndivisible, amounts.requests_core(), cards));
  }
  const std::int64_t core = amounts.core / cards;
  if (core > kWholeCard.value()) {
    return error(fmt::format("{} on {}, that is {} of each; it must be at most 100",
                             amounts.requests_core(), counted(cards, "card"), core));
  }
  if (amounts.memory == 0 && core < kWholeCard.value()) {
    return error(fmt::format(
        "{} asks for mgpu-core {}{} and no mgpu-memory; add mgpu-memory in MiB, or ask for {} "
        "(mgpu-core {})",
        amounts.who, amounts.core, cards > 1 ? fmt::format(" on {} cards", cards) : "",
        cards > 1 ? "whole cards" : "a whole card", cards * kWholeCard.value()));
  }
  if (amounts.memory % cards != 0) {
    return error(fmt::format(kIndivisible, amounts.requests_memory(), cards));
  }
  const std::int64_t memory = amounts.memory / cards;
  const bool too_little = memory != 0 && memory < min_memory.value();
  if (too_little || memory > kCardMemoryMiBMax) {
    return error(
        fmt::format("{} requests {} {} MiB of one card; it must be at {} {} MiB{}", amounts.who,
                    amounts.contract.memory_resource, memory, too_little ? "least" : "most",
                    too_little ? min_memory.value() : kCardMemoryMiBMax,
                    too_little ? "" : " (the unit is MiB: 8 GiB is 8192 or 8Ki, not 8Gi)"));
  }
  return Share{Percent(core), MiB(memory)};
}

// Empty if the container requests no cards. `count` is its number in container-multiple-gpu.
Result<std::optional<ContainerRequest>> read_container(const kube::Container& container,
                                                       ContainerKind kind,
                                                       std::optional<std::int32_t> count,
                                                       const Contract& contract, MiB min_memory) {
  const std::string who = "container " + in_quotes(container.name);
  const auto core = read_amount(container, who, contract.core_resource);
  if (!core) return core.error();
  const auto memory = read_amount(container, who, contract.memory_resource);
  if (!memory) return memory.error();
  const Amounts amounts{who, *core, *memory, count, contract};
  if (*core == 0 && *memory == 0) {
    if (count.value_or(0) == 0) return std::nullopt;
    return error(fmt::format("{} has {} in annotation {} but requests no {}; its entry must be 0",
                             who, *count, contract.container_multiple_gpu, contract.core_resource));
  }
  if (*core == 0) {
    return error(fmt::format("{} without {}; both are needed", amounts.requests_memory(),
                             contract.core_resource));
  }
  if (count == 0) {
    return error(fmt::format("{} but has 0 in annotation {}; its entry must be 1 or more",
                             amounts.requests_core(), contract.container_multiple_gpu));
  }
  if (container.name.size() > kContainerNameMax) {
    return error(fmt::format(
        "{} has a name of {} characters; a container that requests cards may have at most {}", who,
        container.name.size(), kContainerNameMax));
  }
  const auto cards = card_count(amounts);
  if (!cards) return cards.error();
  const auto share = share_per_card(amounts, *cards, min_memory);
  if (!share) return share.error();
  MGPU_DEBUG_CHECK(1 <= *cards && *cards <= kCardsMax, "a container has one card or more");
  MGPU_DEBUG_CHECK(!share->core.zero() && share->core <= kWholeCard &&
                       (share->core == kWholeCard || !share->memory.zero()),
                   "a share without memory is a whole card");
  return ContainerRequest{.name = container.name,
                          .kind = kind,
                          .cards = static_cast<std::int32_t>(*cards),
                          .per_card = *share,
                          .whole = share->memory.zero()};
}

// The key may end with the name of a container, which the API server has checked and this program
// has not.
std::string annotation_text(const std::string& key) {
  const bool plain = std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
  return "annotation " + (plain ? key : in_quotes(key));
}

Error about_annotation(const std::string& key, const Error& problem) {
  return error(annotation_text(key) + ": " + problem.message);
}

using CardCounts = std::vector<std::optional<std::int32_t>>;

// Sidecars that are injected change the positions of containers, and not their names.
Result<CardCounts> read_named_counts(const kube::Pod& pod, const std::string& key,
                                     const std::string& text) {
  auto named = parse_named_card_counts(text);
  if (!named) return about_annotation(key, named.error());
  CardCounts counts;
  for (const kube::Container& container : pod.containers) {
    const auto of_name = named->extract(container.name);
    counts.push_back(of_name ? std::optional(of_name.mapped()) : std::nullopt);
  }
  if (named->empty()) return counts;
  return error(fmt::format("annotation {} {} names {}, which is no container in spec.containers",
                           key, in_quotes(text), in_quotes(named->begin()->first)));
}

// One number for each app container, or nothing without the annotation.
Result<CardCounts> read_counts(const kube::Pod& pod, const Contract& contract) {
  const std::string& key = contract.container_multiple_gpu;
  const std::string* text = find(pod.metadata.annotations, key);
  if (text == nullptr) return CardCounts{};
  if (text->find('=') != text->npos) return read_named_counts(pod, key, *text);
  auto counts = parse_card_counts(*text);
  if (!counts) return about_annotation(key, counts.error());
  if (counts->size() == pod.containers.size()) return CardCounts(counts->begin(), counts->end());
  return error(fmt::format("annotation {} {} has {}; the pod has {}, and each needs a number", key,
                           in_quotes(*text), counted(std::ssize(*counts), "number"),
                           counted(std::ssize(pod.containers), "container")));
}

// The number of indices in the annotation of each app container, 0 without one.
Result<CardCounts> read_bound_counts(const kube::Pod& pod, const Contract& contract) {
  CardCounts counts;
  for (const kube::Container& container : pod.containers) {
    const std::string key = contract.index_key(container.name);
    const std::string* text = find(pod.metadata.annotations, key);
    if (text == nullptr) {
      counts.push_back(0);
      continue;
    }
    const auto cards = parse_card_indices(*text);
    if (!cards) return about_annotation(key, cards.error());
    counts.push_back(static_cast<std::int32_t>(cards->size()));
  }
  return counts;
}

// `counts` has one number for each app container, or is empty.
Result<GpuRequest> read_counted_containers(const kube::Pod& pod, const Result<CardCounts>& counts,
                                           const Contract& contract, MiB min_memory) {
  GpuRequest request_of_pod;
  std::vector<ContainerRequest>& requests = request_of_pod.containers;
  const auto read = [&](const kube::Container& container, ContainerKind kind,
                        std::optional<std::int32_t> count) -> Result<void> {
    auto request = read_container(container, kind, count, contract, min_memory);
    if (!request) return request.error();
    if (*request) requests.push_back(std::move(**request));
    if (requests.size() <= kGpuContainersPerPodMax) return {};
    return error(fmt::format("the pod has more than {} containers that request cards",
                             kGpuContainersPerPodMax));
  };
  for (const kube::Container& container : pod.init_containers) {
    const auto kind = container.restart_always ? ContainerKind::kSidecar : ContainerKind::kInit;
    if (auto ok = read(container, kind, std::nullopt); !ok) return ok.error();
  }
  if (!counts) return counts.error();
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    const auto count = counts->empty() ? std::nullopt : (*counts)[i];
    if (auto ok = read(pod.containers[i], ContainerKind::kApp, count); !ok) return ok.error();
  }
  return request_of_pod;
}

// The most that a container may hold of one card. It has at least as many cards as it requests
// hundreds of core, and a larger number of cards means less of each.
Result<Share> most_of_container(const kube::Container& container, const Contract& contract) {
  const std::string who = "container " + in_quotes(container.name);
  const auto core = read_amount(container, who, contract.core_resource);
  if (!core) return core.error();
  const auto memory = read_amount(container, who, contract.memory_resource);
  if (!memory) return memory.error();
  const std::int64_t whole = kWholeCard.value();
  if (*core >= whole && *memory == 0) return Share{kWholeCard, MiB(kCardMemoryMiBMax)};
  const std::int64_t cards =
      std::max<std::int64_t>(1, *core / whole + (*core % whole == 0 ? 0 : 1));
  return Share{Percent(std::min(*core, whole)), MiB(std::min(*memory / cards, kCardMemoryMiBMax))};
}

Result<CardSelector> read_selector(const kube::Pod& pod, const Contract& contract) {
  CardSelector selector;
  const std::pair<const std::string&, std::vector<std::string>&> lists[] = {
      {contract.gpu_model, selector.models},
      {contract.gpu_model_exclude, selector.models_excluded},
      {contract.gpu_uuid, selector.uuids},
      {contract.gpu_uuid_exclude, selector.uuids_excluded}};
  for (const auto& [key, names] : lists) {
    const std::string* text = find(pod.metadata.annotations, key);
    if (text == nullptr) continue;
    auto parsed = parse_names(*text);
    if (!parsed) return about_annotation(key, parsed.error());
    names = std::move(*parsed);
  }
  return selector;
}

// By the numbers of the preferences.
constexpr std::array<std::string_view, 3> kLinkPreferences{"preferred", "required", "ignored"};
static_assert(static_cast<std::size_t>(LinkPreference::kIgnored) + 1 == kLinkPreferences.size());

Result<LinkPreference> read_links(const kube::Pod& pod, const Contract& contract) {
  const std::string* text = find(pod.metadata.annotations, contract.gpu_links);
  if (text == nullptr) return LinkPreference::kPreferred;
  const auto known = std::ranges::find(kLinkPreferences, *text) - kLinkPreferences.begin();
  if (known < std::ssize(kLinkPreferences)) return static_cast<LinkPreference>(known);
  return error(fmt::format("annotation {} must be required, preferred or ignored, found {}",
                           contract.gpu_links, in_quotes(*text)));
}

}  // namespace

std::string_view to_string(LinkPreference preference) {
  return kLinkPreferences.at(static_cast<std::size_t>(preference));
}

Result<GpuRequest> read_containers(const kube::Pod& pod, const Contract& contract, MiB min_memory) {
  return read_counted_containers(pod, read_counts(pod, contract), contract, min_memory);
}

Result<GpuRequest> read_bound_containers(const kube::Pod& pod, const Contract& contract) {
  return read_counted_containers(pod, read_bound_counts(pod, contract), contract, MiB());
}

Result<Share> most_of_one_card(const kube::Pod& pod, const Contract& contract) {
  PodRequests<Share> requests;
  for (const kube::Container& container : pod.init_containers) {
    const auto share = most_of_container(container, contract);
    if (!share) return share.error();
    container.restart_always ? requests.add_lasting(*share) : requests.add_init(*share);
  }
  for (const kube::Container& container : pod.containers) {
    const auto share = most_of_container(container, contract);
    if (!share) return share.error();
    requests.add_lasting(*share);
  }
  return requests.peak();
}

Result<GpuRequest> read_request(const kube::Pod& pod, const Contract& contract, MiB min_memory) {
  auto request = read_containers(pod, contract, min_memory);
  if (!request || request->empty()) return request;
  auto selector = read_selector(pod, contract);
  if (!selector) return selector.error();
  request->selector = std::move(*selector);
  const auto links = read_links(pod, contract);
  if (!links) return links.error();
  request->links = *links;
  if (const auto* policy = find(pod.metadata.annotations, contract.policy)) {
    request->policy = *policy;
  }
  return request;
}

Result<Placement> read_placement(const kube::Pod& pod, const GpuRequest& request,
                                 const Contract& contract) {
  Placement placement;
  for (const ContainerRequest& container : request.containers) {
    const std::string key = contract.index_key(container.name);
    const std::string* text = find(pod.metadata.annotations, key);
    if (text == nullptr) return error(annotation_text(key) + " is missing");
    auto cards = parse_card_indices(*text);
    if (!cards) return about_annotation(key, cards.error());
    if (std::cmp_not_equal(cards->size(), container.cards)) {
      return error(fmt::format("{} {} must have {}, as the container requests",
                               annotation_text(key), in_quotes(*text),
                               counted(container.cards, "card")));
    }
    placement.cards_of.push_back(std::move(*cards));
  }
  return placement;
}

Share hold_on(const Share& capacity, std::span<const ContainerRequest> containers,
              ContainerSet on) {
  MGPU_DEBUG_CHECK(static_cast<std::size_t>(std::bit_width(on)) <= containers.size(),
                   "a set of containers is of those of the request");
  PodRequests<Share> requests;
  for (; on != 0; on &= on - 1) {
    const ContainerRequest& container = containers[static_cast<std::size_t>(std::countr_zero(on))];
    const Share share = container.on(capacity);
    container.kind == ContainerKind::kInit ? requests.add_init(share) : requests.add_lasting(share);
  }
  return requests.peak();
}

}  // namespace mgpu
