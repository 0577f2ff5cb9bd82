// From XIDs and probes to a card's health. Pure values.
//
//   Healthy --XID that is no program's, bad probe--> Sick --kGoodProbes good ones--> Healthy
//                                                     |  ^
//                                                     +--+ another XID, a bad probe
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/contract/limits.h"
#include "plugin/cards/nvml_abi.h"

namespace mgpu::plugin::nvml {

enum class XidMeaning {
  kCounted,         // a program's fault, or one that the card has dealt with
  kContained,       // an error that ended one program; the card is sick when it comes again
  kSick,            // sick until probes are good again
  kSickUntilReset,  // the card works on, and must be reset nevertheless
};

// `ignored` are counted whatever they are. Meanings: docs.nvidia.com/deploy/xid-errors.
XidMeaning meaning_of(std::uint64_t xid, const std::set<std::uint64_t>& ignored);

// One look at a card.
struct Probe {
  int code = kOk;                             // of a call that asks the card itself
  std::string answer;                         // what NVML calls that code
  std::optional<unsigned> recovery_action{};  // none: the driver does not say
  bool row_remap_failed = false;
};

class CardHealth {
 public:
  // The meaning that it had.
  XidMeaning note_xid(std::uint64_t xid, const std::set<std::uint64_t>& ignored);
  void note_probe(const Probe& probe);
  // kHealthy, or why not, in at most kCardTextMax bytes.
  std::string text() const;

 private:
  std::string reason_;  // empty: healthy
  bool until_reset_ = false;
  bool had_contained_ = false;
  int good_probes_ = 0;
};

}  // namespace mgpu::plugin::nvml
