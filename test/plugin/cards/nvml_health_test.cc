#include "plugin/cards/nvml_health.h"

#include <gtest/gtest.h>

#include "common/contract/limits.h"
#include "plugin/cards/nvml_source.h"

namespace mgpu::plugin::nvml {
namespace {

// What happens to a card, one letter each: '+' a good look, '0' one that says that no recovery is
// needed, '1' that a reset is, 'L' lost, 'R' reset required, '?' unknown error, 'M' a failed row.
void happens(CardHealth& card, const std::string& looks) {
  for (const char look : looks) {
    Probe probe;
    if (look == '0') probe.recovery_action = 0;
    if (look == '1') probe.recovery_action = 1;
    if (look == 'L') probe.code = kGpuIsLost;
    if (look == 'R') probe.code = kResetRequired;
    if (look == '?') probe = {.code = kUnknown, .answer = "Unknown Error (999)"};
    probe.row_remap_failed = look == 'M';
    card.note_probe(probe);
  }
}

struct Story {
  std::string name;
  std::vector<std::uint64_t> xids;
  std::string looks;  // after them
  std::string health;
};

TEST(NvmlHealth, FollowsXidsAndProbes) {
  const Story stories[] = {
      {"at first", {}, "", "Healthy"},
      {"good looks", {}, "+++", "Healthy"},
      {"faults of programs", {13, 31, 43, 45, 68, 109}, "", "Healthy"},
      {"recorded by the card", {63, 74, 92, 154}, "+", "Healthy"},
      {"one that nobody knows", {777}, "", "XID 777"},
      {"and its recovery", {777}, "++", "XID 777"},
      {"after three good looks", {777}, "+++", "Healthy"},
      {"looks in a row", {777}, "++?++", "XID 777"},
      {"that are good", {777}, "++?+++", "Healthy"},
      {"contained error", {94}, "", "Healthy"},
      {"contained errors", {94, 94}, "", "XID 94"},
      {"double-bit error stays without a reset", {48}, "++++++++", "XID 48"},
      {"unless the driver says that all is well", {48}, "000", "Healthy"},
      {"and asks for a reset", {48}, "111", "XID 48"},
      {"until it was reset", {48}, "1110", "XID 48"},
      {"and answered three times", {48}, "111000", "Healthy"},
      {"a reset seen on its way", {48}, "+R+++", "Healthy"},
      {"fallen off the bus", {79}, "LLL", "XID 79"},
      {"and back", {79}, "LLL+++", "Healthy"},
      {"lost without an XID", {}, "L", "fell off the bus"},
      {"lost and back", {}, "L++", "fell off the bus"},
      {"healthy again", {}, "L+++", "Healthy"},
      {"reset required", {}, "R", "needs a reset"},
      {"recovery action", {}, "1", "needs a reset"},
      {"another error", {}, "?", "no answer: Unknown Error (999)"},
      {"row remapping", {}, "M", "row remapping failed"},
      {"the last XID counts", {79, 48}, "", "XID 48"},
      {"the first failed look counts", {}, "LR", "fell off the bus"},
      {"all that need a reset", {64, 95, 119, 120}, "+++", "XID 120"},
  };
  const auto ignored = NvmlOptions().xids_ignored;
  for (const Story& story : stories) {
    CardHealth card;
    for (const std::uint64_t xid : story.xids) card.note_xid(xid, ignored);
    happens(card, story.looks);
    EXPECT_EQ(card.text(), story.health) << story.name;
  }
}

TEST(NvmlHealth, TellsWhatHasToBeDone) {
  const std::pair<unsigned, std::string> actions[] = {
      {1, "needs a reset"},           {2, "needs a restart of the node"},
      {3, "needs its peers drained"}, {4, "needs draining and a reset"},
      {5, "needs recovery action 5"}, {4'000'000'000, "needs recovery action 4000000000"}};
  for (const auto& [action, text] : actions) {
    CardHealth card;
    card.note_probe({.code = kOk, .answer = {}, .recovery_action = action});
    EXPECT_EQ(card.text(), text);
  }
}

TEST(NvmlHealth, DoesNotTakeACardForSickThatTellsNoMemory) {
  CardHealth card;
  card.note_probe({.code = kNotSupported, .answer = "Not Supported (3)", .recovery_action = {}});
  EXPECT_EQ(card.text(), "Healthy");
}

TEST(NvmlHealth, IgnoresWhatItIsToldToIgnore) {
  EXPECT_EQ(meaning_of(79, {79}), XidMeaning::kCounted);
  EXPECT_EQ(meaning_of(48, {48}), XidMeaning::kCounted);
  EXPECT_EQ(meaning_of(13, {}), XidMeaning::kSick);
}

TEST(NvmlHealth, IsShortEnoughForTheContract) {
  CardHealth card;
  card.note_probe({.code = kUnknown, .answer = std::string(500, 'x'), .recovery_action = {}});
  EXPECT_EQ(card.text().size(), kCardTextMax);
}

}  // namespace
}  // namespace mgpu::plugin::nvml
