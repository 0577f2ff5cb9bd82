#include "plugin/cards/nvml/nvml_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin::nvml {
namespace {

constexpr std::uint64_t kBytesPerMiB = std::uint64_t{1} << 20;
constexpr unsigned kListRoom = 64;  // entries, at the first call
constexpr int kListCallsMax = 4;
// A driver with longer entries than it should have must not write past the end of the buffer.
constexpr std::size_t kEntryBytesMax = 64;
constexpr unsigned kPercentMax = 100;
// Drivers keep samples of processes that have ended. A sample that is older than this, compared
// with the newest one, is ignored. The driver takes samples every 1/6 to 1 s.
constexpr std::uint64_t kSampleLifeUs = 2'000'000;

// The driver's clock, compared with that of this process.
constexpr std::uint64_t kClockSlackUs = 60'000'000;

using ByPid = std::map<std::int64_t, ProcessUse>;

// None for values beyond all cards, such as NVML's "not available" (all bits set).
std::optional<MiB> mib(std::uint64_t bytes) {
  const std::uint64_t whole = bytes / kBytesPerMiB;
  if (whole > static_cast<std::uint64_t>(kCardMemoryMiBMax)) return std::nullopt;
  return MiB(static_cast<std::int64_t>(whole));
}

std::string text_of(int (*function)(Device, char*, unsigned), Device device) {
  char text[kTextBytes] = {};
  if (function == nullptr || function(device, text, sizeof text) != kOk) return "";
  std::string read(text, ::strnlen(text, sizeof text));
  std::erase_if(read, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return std::string(cut_text(read, kCardTextMax));
}

// Calls `list` with room for a number of entries until the room is sufficient. `list` returns a
// code and sets the number to that of the entries that exist.
template <class List>
bool list_with_room(unsigned& count, const List& list) {
  count = kListRoom;
  for (int i = 0; i < kListCallsMax; ++i) {
    const unsigned room = count;
    const int code = list(count);
    if (code == kOk) count = std::min(count, room);
    if (code != kInsufficientSize) return code == kOk;
    // There may be more at the next call, since processes start meanwhile.
    count = std::min<unsigned>(std::max(count, room) * 2, kProcessesPerCardMax);
  }
  return false;
}

// Returns nullopt if the driver has no such list, or cannot return it now.
std::optional<std::vector<ProcessInfoV1>> processes_of(const ProcessList& list, Device device) {
  if (!list) return std::nullopt;
  std::vector<unsigned char> bytes;
  unsigned count = 0;
  const bool listed = list_with_room(count, [&](unsigned& number) {
    bytes.assign(number * kEntryBytesMax, 0);
    return list.get(device, &number, bytes.data());
  });
  if (!listed) return std::nullopt;
  MGPU_DEBUG_CHECK(list.entry_bytes <= kEntryBytesMax && count * kEntryBytesMax <= bytes.size(),
                   "all entries are within the buffer");
  std::vector<ProcessInfoV1> entries(count);  // the beginning of an entry of every version
  for (unsigned i = 0; i < count; ++i) {
    std::memcpy(&entries[i], bytes.data() + i * list.entry_bytes, sizeof entries[i]);
  }
  return entries;
}

// A process may be in several lists, with the same memory. Clients of MPS are in two. `listed` is
// set to whether the driver has listed those that compute.
ByPid processes_on(const Functions& f, Device device, bool& listed) {
  ByPid processes;
  const auto add = [&processes](const std::optional<std::vector<ProcessInfoV1>>& list) {
    for (const ProcessInfoV1& entry : list.value_or(std::vector<ProcessInfoV1>())) {
      ProcessUse& process = processes[entry.pid];
      process.pid = entry.pid;
      process.memory = std::max(process.memory, mib(entry.used));
    }
  };
  const auto compute = processes_of(f.compute, device);
  const auto mps = processes_of(f.mps, device);
  listed = compute.has_value();
  add(compute);
  for (auto& [pid, process] : processes) process.without_mps = mps.has_value();
  add(mps);
  for (const ProcessInfoV1& client : mps.value_or(std::vector<ProcessInfoV1>())) {
    processes[client.pid].without_mps = false;
    processes[client.pid].client = true;
  }
  add(processes_of(f.graphics, device));
  return processes;
}

// The clock of samples.
std::uint64_t now_us() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count());
}

// Takes the newest sample of each process. Returns whether a process without one has used nothing:
// the driver lists only processes that have used the card, and the code of an empty list is
// kNotFound. Soon after the last sample an empty list means that there is no new one yet.
bool add_samples(const Functions& f, Device device, std::uint64_t& seen_us, ByPid& processes) {
  if (f.process_utilization == nullptr) return false;
  // The clock went back, so that no sample would be new until it is as late again.
  if (seen_us > now_us() + kClockSlackUs) seen_us = 0;
  std::vector<UtilizationSample> samples;
  unsigned count = 0;
  int code = kOk;
  const bool listed = list_with_room(count, [&](unsigned& number) {
    samples.assign(number, {});
    code = f.process_utilization(device, samples.data(), &number, seen_us);
    return code;
  });
  MGPU_DEBUG_CHECK(!listed || count <= samples.size(), "all samples are within the buffer");
  samples.resize(listed ? count : 0);
  // A percentage over 100 means that the driver has none. After a time in the future no other
  // sample would be new.
  std::erase_if(samples, [latest = now_us() + kClockSlackUs](const UtilizationSample& sample) {
    return sample.pid == 0 || sample.sm > kPercentMax || sample.time_us > latest;
  });
  const bool is_due = now_us() > seen_us + kSampleLifeUs;
  std::uint64_t newest = seen_us;
  for (const UtilizationSample& sample : samples) newest = std::max(newest, sample.time_us);
  std::map<std::int64_t, std::uint64_t> times;
  for (const UtilizationSample& sample : samples) {
    const bool usable = sample.time_us > seen_us && newest - sample.time_us <= kSampleLifeUs;
    if (!usable || times[sample.pid] > sample.time_us) continue;
    times[sample.pid] = sample.time_us;
    ProcessUse& process = processes[sample.pid];
    process.pid = sample.pid;
    process.sm_percent = sample.sm;
  }
  const bool is_new = newest > seen_us;
  seen_us = newest;
  return (listed || code == kNotFound) && (is_new || is_due);
}

// A client of MPS without a sample may be busy if the card is, or a process that may be its server.
bool clients_are_measured(const CardUse& use, const ByPid& processes) {
  const bool is_idle = use.sm_percent == 0 && std::ranges::none_of(processes, [](const auto& one) {
                         return one.second.sm_percent.value_or(0) > 0;
                       });
  return is_idle ||
         std::ranges::none_of(processes, [](const auto& one) { return one.second.client; });
}

// The memory in use; none with the code of NVML in `code`.
std::optional<MiB> memory_used(const Functions& f, Device device, int& code) {
  MemoryV2 newer{};
  newer.version = kMemoryV2Version;
  if (f.memory_v2 != nullptr && f.memory_v2(device, &newer) == kOk) return mib(newer.used);
  Memory memory{};
  code = f.memory(device, &memory);
  if (code != kOk) return std::nullopt;
  return mib(memory.used);
}

// From R510 on the total includes what the driver reserves, some hundred MiB, and only the newer
// function says how much that is.
std::optional<MiB> memory_to_allocate(const Functions& f, Device device, const Memory& memory) {
  MemoryV2 newer{};
  newer.version = kMemoryV2Version;
  if (f.memory_v2 == nullptr || f.memory_v2(device, &newer) != kOk) return mib(memory.total);
  return mib(newer.total - std::min(newer.reserved, newer.total));
}

// The cards for displays in DGX stations, which NVIDIA's own programs leave out by these names, too
// (go-nvlib pkg/nvlib/device/api.go).
bool is_for_displays(std::string_view model) {
  return model == "DGX Display" || model == "NVIDIA DGX Display";
}

// Why cuInit fails on a card that works otherwise. Empty: it does not, or the driver does not say
// so. A fabric that nobody has started is no reason, since a card may be alone in its machine.
std::string not_ready(const Library& library, Device device) {
  const Functions& f = library.functions();
  FabricInfo fabric{};
  if (f.fabric_info != nullptr && f.fabric_info(device, &fabric) == kOk) {
    if (fabric.state == kFabricInProgress) {
      return "waits for the NVLink fabric; does nvidia-fabricmanager run, in the driver's version?";
    }
    if (fabric.state == kFabricCompleted && fabric.status != kOk) {
      return "the NVLink fabric failed: " + library.describe(fabric.status);
    }
  }
  ConfidentialState state{};
  unsigned accepting = 1;
  if (f.confidential_state != nullptr && f.confidential_state(&state) == kOk &&
      state.feature == kEnabled && f.confidential_ready != nullptr &&
      f.confidential_ready(&accepting) == kOk && accepting == 0) {
    return "does not accept work yet (confidential computing)";
  }
  return {};
}

}  // namespace

CardUuid uuid_of(const Library& library, Device device) {
  const std::string text = text_of(library.functions().uuid, device);
  return is_card_uuid(text) ? CardUuid(text) : CardUuid();
}

CardReading read_card(const Library& library, Device device) {
  const Functions& f = library.functions();
  CardReading reading;
  Probe& probe = reading.probe;
  Memory memory{};
  probe.code = f.memory(device, &memory);
  if (probe.code == kOk) reading.memory = memory_to_allocate(f, device, memory);
  if (probe.code != kOk) probe.code_text = library.describe(probe.code);
  // Any further call to a lost card might hang.
  if (probe.code == kGpuIsLost) return reading;
  reading.model = text_of(f.name, device);
  unsigned minor = 0;
  if (f.minor_number(device, &minor) == kOk) reading.minor = minor;

  unsigned current = 0;
  unsigned pending = 0;
  reading.mig = f.mig_mode != nullptr && f.mig_mode(device, &current, &pending) == kOk &&
                (current == kEnabled || pending == kEnabled);
  // Only root may ask for the memory of a card with MIG, which nobody gets.
  if (reading.mig && probe.code == kNoPermission) probe.code = kNotSupported;
  reading.unified = probe.code == kNotSupported;

  ComputeCapability capability;
  if (f.compute_capability != nullptr &&
      f.compute_capability(device, &capability.major, &capability.minor) == kOk) {
    reading.compute_capability = capability;
  }

  unsigned mode = 0;
  if (f.get_compute_mode != nullptr && f.get_compute_mode(device, &mode) == kOk) {
    reading.compute_mode = mode;
  }

  FieldValue action{};
  action.field = kFieldRecoveryAction;
  if (f.field_values != nullptr && f.field_values(device, 1, &action) == kOk &&
      action.code == kOk && action.type == kValueUnsigned) {
    probe.recovery_action = action.value.whole;
  }

  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned failed = 0;
  probe.row_remap_failed =
      f.remapped_rows != nullptr &&
      f.remapped_rows(device, &correctable, &uncorrectable, &pending, &failed) == kOk &&
      failed != 0;
  probe.not_ready =
      is_for_displays(reading.model) ? "is for displays only" : not_ready(library, device);
  return reading;
}

std::vector<Device> instances_of(const Library& library, Device card) {
  const Functions& f = library.functions();
  unsigned most = 0;
  if (!f.has_mig_devices() || f.mig_device_count(card, &most) != kOk) return {};
  std::vector<Device> instances;
  for (unsigned i = 0; i < std::min<unsigned>(most, kCardsPerNodeMax); ++i) {
    Device instance = nullptr;
    if (f.mig_device(card, i, &instance) == kOk) instances.push_back(instance);
  }
  return instances;
}

InstanceReading read_instance(const Library& library, Device instance) {
  const Functions& f = library.functions();
  InstanceReading reading;
  Memory memory{};
  const int code = f.memory(instance, &memory);
  if (code == kOk) reading.memory = memory_to_allocate(f, instance, memory);
  if (code != kOk) reading.problem = "no response: " + library.describe(code);
  reading.model = text_of(f.name, instance);
  unsigned gpu = 0;
  unsigned compute = 0;
  if (f.gpu_instance(instance, &gpu) == kOk && f.compute_instance(instance, &compute) == kOk)
    reading.parts = {fmt::format("gi{}", gpu), fmt::format("gi{}/ci{}", gpu, compute)};
  return reading;
}

std::optional<CardUse> read_use(const Library& library, Device device, const CardUuid& uuid,
                                std::uint64_t& seen_us) {
  const Functions& f = library.functions();
  int code = kOk;
  CardUse use{
      .uuid = uuid, .memory_used = memory_used(f, device, code), .sm_percent = {}, .processes = {}};
  if (!use.memory_used && code != kNotSupported) return std::nullopt;
  Utilization rates{};
  if (f.utilization != nullptr && f.utilization(device, &rates) == kOk &&
      rates.gpu <= kPercentMax) {
    use.sm_percent = rates.gpu;
  }
  ByPid processes = processes_on(f, device, use.listed);
  use.measured = add_samples(f, device, seen_us, processes);
  use.clients_measured = clients_are_measured(use, processes);
  for (const auto& [pid, process] : processes) {
    if (use.processes.size() < kProcessesPerCardMax) use.processes.push_back(process);
  }
  use.listed = use.listed && processes.size() <= kProcessesPerCardMax;
  return use;
}

}  // namespace mgpu::plugin::nvml
