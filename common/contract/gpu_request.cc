#include "common/contract/gpu_request.h"

#include <bit>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/text.h"
#include "common/contract/limits.h"
#include "common/contract/pod_requests.h"
#include "common/contract/quantity.h"

namespace mgpu {

namespace {

constexpr auto kCardsMax = static_cast<std::int64_t>(kCardsPerNodeMax);

std::string number(std::int64_t value) {
  return std::to_string(value);
}

const std::string* find(const kube::StringMap& map, std::string_view key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

// The totals of one container, and its number from container-multiple-gpu where there is one.
struct Totals {
  std::int64_t core = 0;
  std::int64_t memory = 0;
  std::optional<std::int32_t> count;

  bool zero() const { return core == 0 && memory == 0; }
};

// Reads one container; every refusal is a function's one sentence.
class ContainerReader {
 public:
  ContainerReader(const kube::Container& container, ContainerKind kind, const Contract& contract)
      : container_(container),
        kind_(kind),
        contract_(contract),
        who_("container " + in_quotes(container.name)) {}

  // Empty: it asks for no cards.
  Result<std::optional<ContainerRequest>> read(std::optional<std::int32_t> count, MiB min_memory) {
    const auto totals = read_totals(count);
    if (!totals) return totals.error();
    if (auto ok = check_asking(*totals); !ok) return ok.error();
    if (totals->zero()) return std::nullopt;
    const auto cards = card_count(*totals);
    if (!cards) return cards.error();
    const auto share = share_per_card(*totals, *cards);
    if (!share) return share.error();
    if (auto ok = check_memory(*share, min_memory); !ok) return ok.error();
    return ContainerRequest{.name = container_.name,
                            .kind = kind_,
                            .cards = static_cast<std::int32_t>(*cards),
                            .per_card = *share,
                            .whole = share->memory.zero()};
  }

 private:
  Result<std::int64_t> amount(std::string_view side, const std::string& resource,
                              const std::string* text) const {
    if (text == nullptr) return std::int64_t{0};
    return parse_whole_quantity(std::string(side) + " " + resource + " of " + who_, *text);
  }

  // Limits speak; requests only where there is no limit.
  Result<std::int64_t> total(const std::string& resource) const {
    const std::string* limit = find(container_.limits, resource);
    const std::string* request = find(container_.requests, resource);
    const auto limited = amount("limits", resource, limit);
    if (!limited) return limited.error();
    const auto requested = amount("requests", resource, request);
    if (!requested) return requested.error();
    if (limit == nullptr) return *requested;
    if (request == nullptr || *limited == *requested) return *limited;
    return error(who_ + " has limits " + resource + " " + number(*limited) + " and requests " +
                 number(*requested) + "; they must be equal");
  }

  Result<Totals> read_totals(std::optional<std::int32_t> count) const {
    const auto core = total(contract_.core_resource);
    if (!core) return core.error();
    const auto memory = total(contract_.memory_resource);
    if (!memory) return memory.error();
    return Totals{*core, *memory, count};
  }

  std::string asks_core(const Totals& totals) const {
    return who_ + " asks " + contract_.core_resource + " " + number(totals.core);
  }
  std::string asks_memory(const Totals& totals) const {
    return who_ + " asks " + contract_.memory_resource + " " + number(totals.memory);
  }

  Result<void> check_asking(const Totals& totals) const {
    if (totals.zero()) {
      if (totals.count.value_or(0) == 0) return {};
      return error(who_ + " has " + number(*totals.count) + " in annotation " +
                   contract_.container_multiple_gpu + " but asks for no " +
                   contract_.core_resource + "; its entry must be 0");
    }
    if (totals.core == 0) {
      return error(asks_memory(totals) + " without " + contract_.core_resource +
                   "; it must ask both");
    }
    if (totals.count == 0) {
      return error(asks_core(totals) + " but has 0 in annotation " +
                   contract_.container_multiple_gpu + "; its entry must be 1 or more");
    }
    return check_name();
  }

  Result<void> check_name() const {
    if (container_.name.size() <= kContainerNameMax) return {};
    return error(who_ + " has a name of " +
                 number(static_cast<std::int64_t>(container_.name.size())) +
                 " characters; one that asks for cards may have at most " +
                 number(static_cast<std::int64_t>(kContainerNameMax)));
  }

  Result<std::int64_t> card_count(const Totals& totals) const {
    if (totals.count) return std::int64_t{*totals.count};
    if (totals.core <= kWholeCard.value()) return std::int64_t{1};
    if (totals.core % kWholeCard.value() != 0) {
      return error(asks_core(totals) + "; over 100 it must be a multiple of 100, or annotation " +
                   contract_.container_multiple_gpu + " must say over how many cards it is split");
    }
    const std::int64_t cards = totals.core / kWholeCard.value();
    if (cards <= kCardsMax) return cards;
    return error(asks_core(totals) + ", that is " + number(cards) +
                 " cards; a container may have at most " + number(kCardsMax));
  }

  // Memory zero: whole cards.
  Result<Share> share_per_card(const Totals& totals, std::int64_t cards) const {
    if (totals.core % cards != 0) {
      return error(asks_core(totals) + ", which does not divide by its " + number(cards) +
                   " cards");
    }
    const std::int64_t core = totals.core / cards;
    if (core > kWholeCard.value()) {
      return error(asks_core(totals) + " on " + number(cards) + " cards, that is " + number(core) +
                   " of each; it must be at most 100");
    }
    if (totals.memory == 0 && core < kWholeCard.value()) {
      return error(asks_core(totals) + " on " + number(cards) + " cards without " +
                   contract_.memory_resource + "; less than whole cards must ask both");
    }
    if (totals.memory % cards != 0) {
      return error(asks_memory(totals) + ", which does not divide by its " + number(cards) +
                   " cards");
    }
    return Share{Percent(core), MiB(totals.memory / cards)};
  }

  Result<void> check_memory(const Share& share, MiB least) const {
    const std::int64_t memory = share.memory.value();
    if (memory == 0) return {};
    const std::string asks =
        who_ + " asks " + contract_.memory_resource + " " + number(memory) + " of one card; ";
    if (share.memory < least) return error(asks + "it must be at least " + number(least.value()));
    if (memory <= kCardMemoryMiBMax) return {};
    return error(asks + "it must be at most " + number(kCardMemoryMiBMax));
  }

  const kube::Container& container_;
  ContainerKind kind_;
  const Contract& contract_;
  std::string who_;
};

Error about_annotation(const std::string& key, const Error& error_of) {
  return error("annotation " + key + ": " + error_of.message);
}

// One entry per app container; empty where the annotation is absent.
Result<std::vector<std::int32_t>> read_counts(const kube::Pod& pod, const Contract& contract) {
  const std::string& key = contract.container_multiple_gpu;
  const std::string* text = find(pod.metadata.annotations, key);
  if (text == nullptr) return std::vector<std::int32_t>{};
  auto counts = parse_card_counts(*text);
  if (!counts) return about_annotation(key, counts.error());
  if (counts->size() == pod.containers.size()) return counts;
  return error("annotation " + key + " " + in_quotes(*text) + " has " +
               number(static_cast<std::int64_t>(counts->size())) + " entries; the pod has " +
               number(static_cast<std::int64_t>(pod.containers.size())) +
               " containers, and each needs one");
}

Result<void> read_names(const kube::Pod& pod, const std::string& key,
                        std::vector<std::string>& names) {
  const std::string* text = find(pod.metadata.annotations, key);
  if (text == nullptr) return {};
  auto parsed = parse_names(*text);
  if (!parsed) return about_annotation(key, parsed.error());
  names = std::move(*parsed);
  return {};
}

Result<CardSelector> read_selector(const kube::Pod& pod, const Contract& contract) {
  CardSelector selector;
  const std::pair<const std::string&, std::vector<std::string>&> lists[] = {
      {contract.gpu_model, selector.models},
      {contract.gpu_model_exclude, selector.models_excluded},
      {contract.gpu_uuid, selector.uuids},
      {contract.gpu_uuid_exclude, selector.uuids_excluded}};
  for (const auto& [key, names] : lists) {
    if (auto ok = read_names(pod, key, names); !ok) return ok.error();
  }
  return selector;
}

Result<void> append(std::vector<ContainerRequest>& to,
                    Result<std::optional<ContainerRequest>> container) {
  if (!container) return container.error();
  if (*container) to.push_back(std::move(**container));
  if (to.size() <= kGpuContainersPerPodMax) return {};
  return error("the pod has more than " +
               number(static_cast<std::int64_t>(kGpuContainersPerPodMax)) +
               " containers that ask for cards");
}

Result<std::vector<ContainerRequest>> read_containers(const kube::Pod& pod,
                                                      const Contract& contract, MiB min_memory) {
  std::vector<ContainerRequest> asking;
  for (const kube::Container& container : pod.init_containers) {
    const auto kind = container.restart_always ? ContainerKind::kSidecar : ContainerKind::kInit;
    ContainerReader reader(container, kind, contract);
    if (auto ok = append(asking, reader.read(std::nullopt, min_memory)); !ok) return ok.error();
  }
  const auto counts = read_counts(pod, contract);
  if (!counts) return counts.error();
  for (std::size_t i = 0; i < pod.containers.size(); ++i) {
    ContainerReader reader(pod.containers[i], ContainerKind::kApp, contract);
    const auto count = counts->empty() ? std::nullopt : std::optional((*counts)[i]);
    if (auto ok = append(asking, reader.read(count, min_memory)); !ok) return ok.error();
  }
  return asking;
}

}  // namespace

Result<GpuRequest> read_request(const kube::Pod& pod, const Contract& contract, MiB min_memory) {
  auto containers = read_containers(pod, contract, min_memory);
  if (!containers) return containers.error();
  GpuRequest request{.containers = std::move(*containers), .selector = {}, .policy = {}};
  if (request.empty()) return request;
  auto selector = read_selector(pod, contract);
  if (!selector) return selector.error();
  request.selector = std::move(*selector);
  if (const auto* policy = find(pod.metadata.annotations, contract.policy)) {
    request.policy = *policy;
  }
  return request;
}

Result<Placement> read_placement(const kube::Pod& pod, const GpuRequest& request,
                                 const Contract& contract) {
  Placement placement;
  for (const ContainerRequest& container : request.containers) {
    const std::string key = contract.index_key(container.name);
    const std::string* text = find(pod.metadata.annotations, key);
    if (text == nullptr) return error("annotation " + key + " is missing");
    auto cards = parse_card_indices(*text);
    if (!cards) return about_annotation(key, cards.error());
    if (std::cmp_not_equal(cards->size(), container.cards)) {
      return error("annotation " + key + " " + in_quotes(*text) + " has another number of cards " +
                   "than the " + number(container.cards) + " that the container asks for");
    }
    placement.cards_of.push_back(std::move(*cards));
  }
  return placement;
}

Share hold_on(const Share& capacity, std::span<const ContainerRequest> containers,
              ContainerSet on) {
  PodRequests<Share> requests;
  for (; on != 0; on &= on - 1) {
    const ContainerRequest& container = containers[static_cast<std::size_t>(std::countr_zero(on))];
    const Share share = container.on(capacity);
    container.kind == ContainerKind::kInit ? requests.add_init(share) : requests.add_lasting(share);
  }
  return requests.peak();
}

}  // namespace mgpu
