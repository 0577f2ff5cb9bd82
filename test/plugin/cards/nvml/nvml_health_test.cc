#include "plugin/cards/nvml/nvml_health.h"

#include <gtest/gtest.h>

#include "common/contract/limits.h"
#include "plugin/cards/nvml/nvml_source.h"

namespace mgpu::plugin::nvml {
namespace {

// Probes of a card, one letter each: '+' is good, '0' is good with the recovery action "none", '1'
// requests a reset, 'D' releases the driver, 'L' is a lost card, 'R' "reset required", '?' an
// unknown error, 'M' a failed row remapping.
void note_probes(CardHealth& card, const std::string& probes) {
  for (const char letter : probes) {
    Probe probe;
    if (letter == 'D') {
      card.note_release();
      continue;
    }
    if (letter == '0') probe.recovery_action = 0;
    if (letter == '1') probe.recovery_action = 1;
    if (letter == 'L') probe.code = kGpuIsLost;
    if (letter == 'R') probe.code = kResetRequired;
    if (letter == '?') probe = {.code = kUnknown, .code_text = "Unknown Error (999)"};
    probe.row_remap_failed = letter == 'M';
    card.note_probe(probe);
  }
}

struct Case {
  std::string name;
  std::vector<std::uint64_t> xids;
  std::string probes;  // after the XIDs
  std::string health;
};

TEST(NvmlHealth, IsDerivedFromXidsAndProbes) {
  const Case cases[] = {
      {"at first", {}, "", "Healthy"},
      {"good probes", {}, "+++", "Healthy"},
      {"faults of programs", {13, 31, 43, 45, 68, 109}, "", "Healthy"},
      {"handled by the card", {63, 74, 92, 154}, "+", "Healthy"},
      {"unknown XID", {777}, "", "XID 777"},
      {"too few good probes", {777}, "++", "XID 777"},
      {"three good probes", {777}, "+++", "Healthy"},
      {"not three in a row", {777}, "++?++", "XID 777"},
      {"three in a row", {777}, "++?+++", "Healthy"},
      {"one contained error", {94}, "", "Healthy"},
      {"two contained errors", {94, 94}, "", "XID 94"},
      {"double-bit error without a reset", {48}, "++++++++", "XID 48"},
      {"double-bit error, no recovery action", {48}, "000", "Healthy"},
      {"double-bit error, reset requested", {48}, "111", "XID 48"},
      {"reset no longer requested", {48}, "1110", "XID 48"},
      {"and three good probes", {48}, "111000", "Healthy"},
      {"reset between probes", {48}, "+R+++", "Healthy"},
      {"fallen off the bus", {79}, "LLL", "XID 79"},
      {"off the bus and back", {79}, "LLL+++", "Healthy"},
      {"lost without an XID", {}, "L", "fell off the bus"},
      {"lost and back", {}, "L++", "fell off the bus"},
      {"healthy again", {}, "L+++", "Healthy"},
      {"reset required", {}, "R", "needs a reset"},
      {"recovery action", {}, "1", "needs a reset"},
      {"another error", {}, "?", "no response: Unknown Error (999)"},
      {"row remapping", {}, "M", "row remapping failed"},
      {"the last XID counts", {79, 48}, "", "XID 48"},
      {"the first failed probe counts", {}, "LR", "fell off the bus"},
  };
  const auto ignored = NvmlOptions().xids_ignored;
  for (const Case& c : cases) {
    CardHealth card;
    for (const std::uint64_t xid : c.xids) card.note_xid(xid, ignored);
    note_probes(card, c.probes);
    EXPECT_EQ(card.text(), c.health) << c.name;
  }
}

// The actions RESET_GPU, RESTART_BM and RESTART_VM of NVIDIA's catalog, and double-bit errors.
TEST(NvmlHealth, AnXidThatNeedsAResetStaysUntilThen) {
  constexpr std::uint64_t kXids[] = {46,  48,  62,  64,  79,  95,  109, 110, 119,
                                     120, 136, 140, 143, 151, 155, 156, 158};
  for (const std::uint64_t xid : kXids) {
    CardHealth card;
    card.note_xid(xid, {});
    note_probes(card, "++++++++++");
    EXPECT_NE(card.text(), "Healthy") << xid;
    note_probes(card, "D++");
    EXPECT_NE(card.text(), "Healthy") << xid;
    note_probes(card, "+");
    EXPECT_EQ(card.text(), "Healthy") << xid;
  }
}

TEST(NvmlHealth, NamesTheRecoveryAction) {
  const std::pair<unsigned, std::string> actions[] = {
      {1, "needs a reset"},           {2, "needs a restart of the node"},
      {3, "needs its peers drained"}, {4, "needs draining and a reset"},
      {5, "needs recovery action 5"}, {4'000'000'000, "needs recovery action 4000000000"}};
  for (const auto& [action, text] : actions) {
    CardHealth card;
    card.note_probe({.code = kOk, .code_text = {}, .recovery_action = action});
    EXPECT_EQ(card.text(), text);
  }
}

TEST(NvmlHealth, AcceptsACardThatReportsNoMemory) {
  CardHealth card;
  card.note_probe({.code = kNotSupported, .code_text = "Not Supported (3)", .recovery_action = {}});
  EXPECT_EQ(card.text(), "Healthy");
}

TEST(NvmlHealth, IgnoresTheGivenXids) {
  CardHealth card;
  card.note_xid(79, {79});
  card.note_xid(48, {48});
  EXPECT_EQ(card.text(), "Healthy");
  card.note_xid(13, {});
  EXPECT_EQ(card.text(), "XID 13");
}

TEST(NvmlHealth, HasATextWithinTheLimitOfTheContract) {
  CardHealth card;
  card.note_probe({.code = kUnknown, .code_text = std::string(500, 'x'), .recovery_action = {}});
  EXPECT_EQ(card.text().size(), kCardTextMax);
}

}  // namespace
}  // namespace mgpu::plugin::nvml
