// Named profiles: settings for groups of nodes, from a file that all device plugins of a cluster
// read.
//
//   profiles:
//   - name: inference            # a label value, which no other profile has
//     nodeSelector: {pool: inference}
//     isolation: mps             # that of --isolation if it is absent
//     policy: spread/binpack     # that of mgpu-extender if it is absent
//     minimumCore: 10            # the least share of a card, in percent and MiB; 0 if absent
//     minimumMemoryMiB: 2048
//     reserveMiB: 1024           # memory of each card that no pod gets; as the flag if absent
//     reservedCards: [0]         # indices of cards that get no pods
//     computeFactor: 2           # what pods may hold of a card's compute, 1 to 10; 1 if absent
//
// A node with the label mgpu-profile has the profile of that name. Without the label it has the one
// whose nodeSelector its labels match; a profile without nodeSelector is only for the label. Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {

// Labels of a node, by their keys.
using Labels = std::map<std::string, std::string, std::less<>>;

struct Profile {
  std::string name;
  Labels node_selector{};   // empty: for no node without the label
  std::string isolation{};  // a value of --isolation; empty: that of the flag
  std::string policy{};     // empty: that of the extender
  Share minimum{};
  std::optional<MiB> reserve{};  // none: that of the flags
  std::set<CardIndex> reserved_cards{};
  Percent core = kWholeCard;
  bool operator==(const Profile&) const = default;
};

// Errors: not YAML, an unknown field, a value of another type or out of range, two profiles of one
// name. The sentence names the field.
Result<std::vector<Profile>> parse_profiles(std::string_view yaml);

// The profile of a node with these labels; none: no profile is for it. `label` is the key of the
// label that names a profile. Errors: it names an unknown one, or several profiles match.
Result<std::optional<Profile>> choose_profile(const std::vector<Profile>& profiles,
                                              const Labels& labels, const std::string& label);

// Applies the profile to the cards, whose `index` is set: the compute, `reserve` MiB less memory,
// and the reason why a card is reserved. A card that has no more memory than `reserve` is reserved,
// too.
void apply_profile(const Profile& profile, MiB reserve, std::vector<FoundCard>& cards);

}  // namespace mgpu::plugin
