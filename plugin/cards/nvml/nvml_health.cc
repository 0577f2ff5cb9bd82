#include "plugin/cards/nvml/nvml_health.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin::nvml {
namespace {

enum class XidMeaning {
  kHarmless,             // a fault of a program, or an error that the card has handled
  kContained,            // an error that ended one program; the second one makes the card unhealthy
  kUnhealthy,            // until probes are good again
  kUnhealthyUntilReset,  // the card works, but must be reset
};

XidMeaning meaning_of(std::uint64_t xid) {
  switch (xid) {
    case 63:   // a row was remapped, or a page retired
    case 74:   // NVLink error: the next probe shows whether the card must be reset
    case 92:   // many corrected errors
    case 154:  // the recovery action changed: the next probe reads it
      return XidMeaning::kHarmless;
    case 94:  // contained error
      return XidMeaning::kContained;
    // Those whose immediate action is a reset or a restart in NVIDIA's catalog
    // (docs.nvidia.com/deploy/xid-errors, analyzing-xid-catalog).
    case 46:   // the card stopped processing
    case 48:   // double-bit error
    case 62:   // the power management unit halted
    case 64:   // a row could not be remapped
    case 79:   // fell off the bus
    case 95:   // uncontained error
    case 109:  // a context switch took too long; by default --xid-ignore has it
    case 110:  // security fault
    case 119:  // the GPU System Processor does not respond
    case 120:  // error of the GPU System Processor
    case 136:  // a link could not be trained
    case 140:  // an uncorrected error was not handled
    case 143:  // initialization failed
    case 151:  // a key could not be rotated
    case 155:  // error of an NVLink, by software
    case 156:  // a resource was retired, from the next reset on
    case 158:  // fatal timeout
      return XidMeaning::kUnhealthyUntilReset;
    default:
      return XidMeaning::kUnhealthy;
  }
}

std::string recovery_text(unsigned action) {
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

// Empty if the probe is good.
std::string problem_of(const Probe& probe) {
  if (probe.code == kGpuIsLost) return "fell off the bus";
  if (probe.code == kResetRequired) return "needs a reset";
  // Cards that share the processor's memory do not report their own.
  if (probe.code != kOk && probe.code != kNotSupported) return "no response: " + probe.code_text;
  if (probe.recovery_action.value_or(0) != 0) return recovery_text(*probe.recovery_action);
  return probe.row_remap_failed ? "row remapping failed" : probe.not_ready;
}

}  // namespace

void CardHealth::note_xid(std::uint64_t xid, const std::set<std::uint64_t>& ignored) {
  const XidMeaning meaning = ignored.contains(xid) ? XidMeaning::kHarmless : meaning_of(xid);
  if (meaning == XidMeaning::kHarmless) return;
  if (meaning == XidMeaning::kContained && !had_contained_) {
    had_contained_ = true;
    return;
  }
  reason_ = fmt::format("XID {}", xid);
  until_reset_ |= meaning == XidMeaning::kUnhealthyUntilReset;
  good_probes_ = 0;
}

void CardHealth::note_probe(const Probe& probe) {
  if (const std::string problem = problem_of(probe); !problem.empty()) {
    if (reason_.empty()) reason_ = std::string(cut_text(problem, kCardTextMax));
    good_probes_ = 0;
    // A card that responds again after one of these codes has been reset.
    if (probe.code == kGpuIsLost || probe.code == kResetRequired) until_reset_ = false;
    return;
  }
  // A driver that reports recovery actions requests a reset as long as one is needed. With others,
  // only a reset ends this.
  if (until_reset_ && !probe.recovery_action) return;
  if (reason_.empty() || ++good_probes_ < kGoodProbes) return;
  *this = CardHealth();
}

std::string CardHealth::text() const {
  return reason_.empty() ? std::string(kHealthy) : reason_;
}

}  // namespace mgpu::plugin::nvml
