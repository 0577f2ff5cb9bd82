// The interface to the cards of a node. It has two implementations: NVML (nvml_source.h), and a
// file that describes cards (cards_file.h). A card is identified by its UUID; card_index.h assigns
// indices to UUIDs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/contract/limits.h"
#include "plugin/allocation/edits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {

// Whether `text` may be used as a UUID. UUIDs become parts of paths: only letters, digits, "-", "_"
// and "." are allowed, and no "." at the beginning.
inline bool is_card_uuid(std::string_view text) {
  constexpr std::string_view kAllowed =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.";
  return !text.empty() && text.size() <= kCardTextMax && text.front() != '.' &&
         text.find_first_not_of(kAllowed) == text.npos;
}

// "8.6": the features of a card that CUDA can use.
struct ComputeCapability {
  int major = 0;
  int minor = 0;
  auto operator<=>(const ComputeCapability&) const = default;
};

struct FoundCard {
  CardUuid uuid;
  std::string model;
  MiB memory;
  // Anything but kHealthy is the reason why the card is not offered: "XID 79", "MIG", ...
  std::string health = std::string(kHealthy);
  std::optional<CardIndex> index{};  // as requested by the cards file; none with NVML
  std::vector<DeviceNode> nodes{};
  std::optional<ComputeCapability> compute_capability{};  // none: unknown
  Percent core = kWholeCard;                              // what pods may hold in sum
  std::optional<unsigned> compute_mode{};                 // nvmlComputeMode_t; none: unknown
  std::optional<std::int32_t> numa{};                     // its NUMA node; none: unknown
  // The driver counts it, and has never said which card it is: `uuid` is only its place in the list
  // of the driver.
  bool unreadable = false;
  bool operator==(const FoundCard&) const = default;
};

struct FoundCards {
  std::vector<FoundCard> cards;
  Edits shared;  // for every container that has a card: control nodes, libraries
  // The same from the CDI spec of NVIDIA's toolkit. None: the node has no spec that can be used.
  std::optional<Edits> toolkit{};
  CardLinks links{};  // of the first of `cards`, by their positions; empty: unknown
  // Why links count as worse than they may be, one sentence; empty: they do not.
  std::string links_problem{};
  bool operator==(const FoundCards&) const = default;
};

// The edits for every container that has a card.
inline const Edits& shared_edits(const FoundCards& found) {
  return found.toolkit ? *found.toolkit : found.shared;
}

struct ProcessUse {
  std::int64_t pid = 0;              // in the node's pid namespace
  std::optional<MiB> memory;         // none: the driver does not report it
  std::optional<double> sm_percent;  // of the whole card, 0..100; none: no sample
  // A compute process that the driver does not list as a client of MPS, though it lists these.
  bool without_mps = false;
  bool client = false;  // of MPS, as the driver lists it
  bool operator==(const ProcessUse&) const = default;
};

struct CardUse {
  CardUuid uuid;
  std::optional<MiB> memory_used;     // of the whole card
  std::optional<double> sm_percent;   // of the whole card
  std::vector<ProcessUse> processes;  // at most kProcessesPerCardMax
  // The compute that processes use is measured: one without sm_percent has used none.
  bool measured = false;
  // False: with the exception of processes that may be clients of MPS, whose use NVIDIA attributes
  // to their server.
  bool clients_measured = true;
  bool listed = true;  // false: `processes` may lack some, since the driver did not list them
};

// Functions may block for as long as the driver does. Only one thread at a time may call them,
// apart from interrupt().
class CardSource {
 public:
  virtual ~CardSource() = default;

  // The current state of all cards; MIG-enabled and unhealthy cards are included. Errors: one
  // sentence that says what was not found or did not work, and where.
  virtual Result<FoundCards> read() = 0;
  // The current use of the cards. Cards that do not respond are left out.
  virtual std::vector<CardUse> use() = 0;
  // Waits until something may have changed (an XID, the file), at most `timeout`. interrupt() ends
  // the wait.
  virtual void wait_for_change(std::chrono::milliseconds timeout) = 0;
  virtual void interrupt() = 0;  // any thread
  // Why only a new process can use the cards again; one sentence, and empty if that would not
  // help.
  virtual std::string needs_restart() const { return {}; }
  // Closes the driver's libraries. The next read() opens them again. May do nothing.
  virtual void release() {}
  // "NVML 12.580 (driver 580.95.05)", "/etc/mgpu/cards.yaml"
  virtual std::string description() const = 0;
};

}  // namespace mgpu::plugin
