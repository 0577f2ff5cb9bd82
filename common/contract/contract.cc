#include "common/contract/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu {
namespace {

constexpr auto kCountMax = static_cast<std::int32_t>(kCardsPerNodeMax);

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// A number without sign, blanks and leading zeros.
std::optional<std::int32_t> read_number(std::string_view text, std::int32_t most) {
  const auto value = parse_number<std::int32_t>(text);
  const bool plain = value && (text == "0" || (text[0] != '0' && text[0] != '-'));
  return plain && *value <= most ? value : std::nullopt;
}

bool are_read_back(std::span<const CardIndex> cards, std::string_view text) {
  const auto read = parse_card_indices(text);
  return read && std::ranges::equal(*read, cards);
}

Error bad_list(std::string_view what, std::string_view text, std::string_view why) {
  return error(fmt::format("{} {} {}", what, in_quotes(text), why));
}

}  // namespace

Result<Contract> Contract::for_domain(std::string_view domain) {
  const auto labels = split(domain, '.');
  if (domain.size() > kResourceDomainMax ||
      !std::all_of(labels.begin(), labels.end(), is_dns_label)) {
    return error(
        fmt::format("resource domain {} must be a DNS subdomain of at most {} characters: "
                    "lower-case letters, digits, '-' and '.'",
                    in_quotes(domain), kResourceDomainMax));
  }
  // Names with "kubernetes.io/" are native resources, and those with the prefix "requests." are
  // quotas (pkg/apis/core/helper, IsExtendedResourceName).
  if (domain.ends_with("kubernetes.io") || domain.starts_with("requests.")) {
    return error("resource domain " + in_quotes(domain) + " is reserved by Kubernetes");
  }
  const std::string prefix = std::string(domain) + "/";
  return Contract{.domain = std::string(domain),
                  .core_resource = prefix + "mgpu-core",
                  .memory_resource = prefix + "mgpu-memory",
                  .assumed = prefix + "assumed",
                  .container_multiple_gpu = prefix + "container-multiple-gpu",
                  .policy = prefix + "mgpu-policy",
                  .gpu_model = prefix + "gpu-model",
                  .gpu_model_exclude = prefix + "gpu-model-exclude",
                  .gpu_uuid = prefix + "gpu-uuid",
                  .gpu_uuid_exclude = prefix + "gpu-uuid-exclude",
                  .gpu_links = prefix + "gpu-links",
                  .node_cards = prefix + "mgpu-cards",
                  .profile = prefix + "mgpu-profile",
                  .cordoned_cards = prefix + "mgpu-cordoned-cards",
                  .needs_cpu = prefix + "mgpu-needs-cpu",
                  .release = prefix + "mgpu-release-driver",
                  .index_prefix = prefix + "gpu-index-container-"};
}

std::string Contract::index_key(std::string_view container) const {
  return index_prefix + std::string(container);
}

std::string format_card_indices(std::span<const CardIndex> cards) {
  MGPU_CHECK(!cards.empty(), "an index list is empty");
  std::string text;
  std::int32_t last = -1;
  for (const CardIndex card : cards) {
    MGPU_CHECK(card.value() > last, "card indices are not strictly ascending");
    MGPU_CHECK(card.value() <= kCardIndexMax, "card index out of range");
    if (last >= 0) text += ',';
    last = card.value();
    text += std::to_string(last);
  }
  MGPU_DEBUG_CHECK(cards.size() > kCardsPerNodeMax || are_read_back(cards, text),
                   "an index list is read back the same");
  return text;
}

Result<std::vector<CardIndex>> parse_card_indices(std::string_view text) {
  std::vector<CardIndex> cards;
  for (const std::string_view entry : split(text, ',')) {
    const auto index = read_number(entry, kCardIndexMax);
    if (!index) {
      return bad_list(
          "card index list", text,
          fmt::format("must be numbers from 0 to {} separated by commas, such as \"0,2\"; found {}",
                      kCardIndexMax, in_quotes(entry)));
    }
    if (!cards.empty() && CardIndex(*index) <= cards.back()) {
      return bad_list("card index list", text, "must be ascending and without duplicates");
    }
    if (cards.size() == kCardsPerNodeMax) {
      return bad_list("card index list", text,
                      fmt::format("has more than {} entries", kCardsPerNodeMax));
    }
    cards.emplace_back(*index);
  }
  return cards;
}

Result<std::vector<std::int32_t>> parse_card_counts(std::string_view text) {
  std::vector<std::int32_t> counts;
  for (const std::string_view entry : split(text, ',')) {
    const auto count = read_number(without_blanks(entry), kCountMax);
    if (!count) {
      return bad_list("card count list", text,
                      fmt::format("must be one number from 0 to {} for each container, separated "
                                  "by commas, such as \"2,0,1\"; found {}",
                                  kCountMax, in_quotes(entry)));
    }
    counts.push_back(*count);
  }
  return counts;
}

Result<std::map<std::string, std::int32_t>> parse_named_card_counts(std::string_view text) {
  std::map<std::string, std::int32_t> counts;
  for (const std::string_view entry : split(text, ',')) {
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view name = without_blanks(entry.substr(0, equals));
    const auto count =
        read_number(without_blanks(entry.substr(std::min(equals + 1, entry.size()))), kCountMax);
    if (name.empty() || !count) {
      return bad_list("card count list", text,
                      fmt::format("must have the name of a container and a number from 0 to {} in "
                                  "each entry, such as \"train=2,side=0\"; found {}",
                                  kCountMax, in_quotes(entry)));
    }
    if (!counts.emplace(name, *count).second) {
      return bad_list("card count list", text,
                      fmt::format("names container {} twice", in_quotes(name)));
    }
  }
  return counts;
}

Result<std::vector<std::string>> parse_names(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string_view entry : split(text, ',')) {
    const std::string_view name = without_blanks(entry);
    if (name.empty()) {
      return bad_list("name list", text, "must be names separated by commas; one of them is empty");
    }
    if (names.size() == kSelectorEntriesMax) {
      return bad_list("name list", text,
                      fmt::format("has more than {} names", kSelectorEntriesMax));
    }
    if (name.size() > kCardTextMax) {
      return bad_list("name list", text,
                      fmt::format("has a name of {} bytes; models and UUIDs of cards have at most "
                                  "{}",
                                  name.size(), kCardTextMax));
    }
    names.emplace_back(name);
  }
  return names;
}

std::map<std::string, std::string> placement_annotations(
    const Contract& contract,
    const std::map<std::string, std::vector<CardIndex>>& cards_by_container) {
  std::map<std::string, std::string> annotations{{contract.assumed, "true"}};
  for (const auto& [container, cards] : cards_by_container) {
    MGPU_CHECK(container.size() <= kContainerNameMax,
               "a container name is too long for an annotation key");
    annotations.emplace(contract.index_key(container), format_card_indices(cards));
  }
  MGPU_DEBUG_CHECK(annotations.size() == cards_by_container.size() + 1,
                   "each container has an annotation of its own");
  return annotations;
}

}  // namespace mgpu
