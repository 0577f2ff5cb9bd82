#include "plugin/cards/nvml_health.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin::nvml {
namespace {

std::string action_text(unsigned action) {
  switch (action) {
    case 1:
      return "needs a reset";
    case 2:
      return "needs a restart of the node";
    case 3:
      return "needs its peers drained";
    case 4:
      return "needs draining and a reset";
    default:
      return fmt::format("needs recovery action {}", action);
  }
}

// Nothing where all is well.
std::string complaint_of(const Probe& probe) {
  if (probe.code == kGpuIsLost) return "fell off the bus";
  if (probe.code == kResetRequired) return "needs a reset";
  // Cards that share the processor's memory do not tell theirs.
  if (probe.code != kOk && probe.code != kNotSupported) return "no answer: " + probe.answer;
  if (probe.recovery_action.value_or(0) != 0) return action_text(*probe.recovery_action);
  return probe.row_remap_failed ? "row remapping failed" : "";
}

}  // namespace

XidMeaning meaning_of(std::uint64_t xid, const std::set<std::uint64_t>& ignored) {
  if (ignored.contains(xid)) return XidMeaning::kCounted;
  switch (xid) {
    case 63:   // a row was remapped, or a page retired
    case 74:   // NVLink: the probe that follows says whether something must be done
    case 92:   // many corrected errors
    case 154:  // the recovery action changed: the probe reads it
      return XidMeaning::kCounted;
    case 94:
      return XidMeaning::kContained;
    case 48:   // double-bit error
    case 64:   // a row could not be remapped
    case 95:   // uncontained error
    case 119:  // the card's own processor does not answer
    case 120:
      return XidMeaning::kSickUntilReset;
    default:
      return XidMeaning::kSick;
  }
}

XidMeaning CardHealth::note_xid(std::uint64_t xid, const std::set<std::uint64_t>& ignored) {
  const XidMeaning meaning = meaning_of(xid, ignored);
  const bool again = meaning == XidMeaning::kContained && had_contained_;
  had_contained_ |= meaning == XidMeaning::kContained;
  if (meaning == XidMeaning::kSick || meaning == XidMeaning::kSickUntilReset || again) {
    reason_ = fmt::format("XID {}", xid);
    until_reset_ |= meaning == XidMeaning::kSickUntilReset;
    good_probes_ = 0;
  }
  return meaning;
}

void CardHealth::note_probe(const Probe& probe) {
  if (const std::string complaint = complaint_of(probe); !complaint.empty()) {
    if (reason_.empty()) reason_ = std::string(cut_text(complaint, kCardTextMax));
    good_probes_ = 0;
    // What answers again after this has been reset.
    if (probe.code == kGpuIsLost || probe.code == kResetRequired) until_reset_ = false;
    return;
  }
  // A driver that knows recovery actions knows better than the XID.
  if (until_reset_ && !probe.recovery_action) return;
  if (reason_.empty() || ++good_probes_ < kGoodProbes) return;
  *this = CardHealth();
}

std::string CardHealth::text() const {
  return reason_.empty() ? std::string(kHealthy) : reason_;
}

}  // namespace mgpu::plugin::nvml
