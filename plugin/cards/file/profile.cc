#include "plugin/cards/file/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/yaml_fields.h"

namespace mgpu::plugin {
namespace {

using yaml::Entry;
using yaml::Fields;
using yaml::refuse;
using yaml::Value;

constexpr std::array<std::string_view, 5> kIsolations{"none", "intercept", "mps", "driver", "auto"};

// A value of a label (apimachinery util/validation/validation.go, IsValidLabelValue), not empty.
bool is_label_value(std::string_view text) {
  constexpr std::size_t kMost = 63;
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  };
  const auto is_legal = [&](char c) { return is_plain(c) || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= kMost && is_plain(text.front()) && is_plain(text.back()) &&
         std::ranges::all_of(text, is_legal);
}

Labels read_selector(const Fields& profile) {
  const Value& map = profile.child("nodeSelector");
  const std::string place = profile.place_of("nodeSelector");
  if (!map.is_map() || map.keys.empty() || map.keys.size() > kProfileLabelsMax) {
    refuse(fmt::format("{} must be a map of 1 to {} labels", place, kProfileLabelsMax));
  }
  Labels labels;
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const std::string key = map.items[i].is_text() ? map.keys[i].text : "";
    const std::string& value = map.items[i].text;
    if (key.empty() || (!value.empty() && !is_label_value(value))) {
      refuse(fmt::format("{} must have labels and their values, found {} with {}", place,
                         in_quotes(key), in_quotes(value)));
    }
    labels.emplace(key, value);
  }
  return labels;
}

std::string read_isolation(const Fields& profile) {
  std::string isolation = profile.text("isolation");
  if (std::ranges::find(kIsolations, isolation) == kIsolations.end()) {
    refuse(fmt::format("{} must be {}, found {}", profile.place_of("isolation"),
                       fmt::join(kIsolations, ", "), in_quotes(isolation)));
  }
  return isolation;
}

// In whole percent.
Percent read_factor(const Fields& profile) {
  constexpr double kMost = static_cast<double>(kCardCoreMax) / 100;
  const double percent = 100 * profile.number("computeFactor", 1.0, kMost);
  const double whole = std::round(percent);
  constexpr double kRounding = 1e-6;
  if (std::abs(percent - whole) > kRounding) {
    refuse(fmt::format("{} must have at most two decimals, found {}",
                       profile.place_of("computeFactor"), percent / 100));
  }
  return Percent(static_cast<std::int64_t>(whole));
}

std::set<CardIndex> read_reserved_cards(const Fields& profile) {
  std::set<CardIndex> cards;
  for (const auto& [place, node] : profile.list("reservedCards", kCardsPerNodeMax)) {
    const Value entry{.kind = Value::Kind::kMap, .keys = {{"index"}}, .items = {node}};
    const int index = Fields(entry, place, {}).number("index", 0, kCardIndexMax);
    if (!cards.insert(CardIndex(index)).second) {
      refuse(fmt::format("{} has card {} twice", profile.place_of("reservedCards"), index));
    }
  }
  return cards;
}

Profile read_profile(const Entry& entry) {
  const Fields fields(entry.node, entry.place,
                      {"name", "nodeSelector", "isolation", "policy", "minimumCore",
                       "minimumMemoryMiB", "reserveMiB", "reservedCards", "computeFactor"});
  Profile profile{.name = fields.text("name")};
  if (!is_label_value(profile.name)) {
    refuse(
        fmt::format("{} must be the value of a label: 1 to 63 letters, digits, \"-\", \"_\" and "
                    "\".\", found {}",
                    fields.place_of("name"), in_quotes(profile.name)));
  }
  const auto amount = [&](std::string_view name, std::int64_t most) {
    return fields.has(name) ? fields.number<std::int64_t>(name, 0, most) : 0;
  };
  if (fields.has("nodeSelector")) profile.node_selector = read_selector(fields);
  if (fields.has("isolation")) profile.isolation = read_isolation(fields);
  if (fields.has("policy")) profile.policy = fields.text("policy");
  profile.minimum = {Percent(amount("minimumCore", kWholeCard.value())),
                     MiB(amount("minimumMemoryMiB", kCardMemoryMiBMax))};
  if (fields.has("reserveMiB")) profile.reserve = MiB(amount("reserveMiB", kCardMemoryMiBMax));
  if (fields.has("reservedCards")) profile.reserved_cards = read_reserved_cards(fields);
  if (fields.has("computeFactor")) profile.core = read_factor(fields);
  return profile;
}

bool matches(const Profile& profile, const Labels& labels) {
  if (profile.node_selector.empty()) return false;
  return std::ranges::all_of(profile.node_selector, [&](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

}  // namespace

Result<std::vector<Profile>> parse_profiles(std::string_view yaml) {
  using Profiles = std::vector<Profile>;
  return yaml::read<Profiles>(yaml, [](const Value& document) {
    Profiles profiles;
    std::set<std::string> names;
    const Fields root(document, "", {"profiles"});
    for (const Entry& entry : root.list("profiles", kProfilesMax)) {
      profiles.push_back(read_profile(entry));
      if (names.insert(profiles.back().name).second) continue;
      refuse(fmt::format("{}.name {} is that of another profile too", entry.place,
                         in_quotes(profiles.back().name)));
    }
    return profiles;
  });
}

Result<std::optional<Profile>> choose_profile(const std::vector<Profile>& profiles,
                                              const Labels& labels, const std::string& label) {
  if (const auto named = labels.find(label); named != labels.end()) {
    const auto found = std::ranges::find(profiles, named->second, &Profile::name);
    if (found != profiles.end()) return std::optional(*found);
    std::string names;
    for (const Profile& profile : profiles) names += (names.empty() ? "" : ", ") + profile.name;
    return error(fmt::format("label {} names the profile {}, expected one of {}", label,
                             in_quotes(named->second), names));
  }
  std::optional<Profile> chosen;
  for (const Profile& profile : profiles) {
    if (!matches(profile, labels)) continue;
    if (chosen) {
      return error(
          fmt::format("the labels of the node match the profiles {} and {}, expected one; "
                      "set the label {} to the name of one of them",
                      in_quotes(chosen->name), in_quotes(profile.name), label));
    }
    chosen = profile;
  }
  return chosen;
}

void apply_profile(const Profile& profile, MiB reserve, std::vector<FoundCard>& cards) {
  const std::string reserved = std::string(kReservedBy) + profile.name;
  for (FoundCard& card : cards) {
    card.core = profile.core;
    const bool shared_out = card.memory > kNoMemoryOfItsOwn;
    const bool whole = shared_out && card.memory <= reserve;
    if (shared_out && !whole) card.memory = card.memory.minus_saturating(reserve);
    MGPU_DEBUG_CHECK(!shared_out || !card.memory.zero(), "a reserve leaves some of the memory");
    const bool named = card.index && profile.reserved_cards.contains(*card.index);
    if (card.health == kHealthy && (named || whole)) card.health = reserved;
  }
}

}  // namespace mgpu::plugin
