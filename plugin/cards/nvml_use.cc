// read_use: what runs on a card.
#include <algorithm>
#include <cstring>
#include <map>

#include "plugin/cards/nvml_card.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin::nvml {
namespace {

constexpr std::uint64_t kBytesPerMiB = std::uint64_t{1} << 20;
constexpr unsigned kFirstGuess = 64;
constexpr int kGuesses = 4;
constexpr unsigned kPercentMax = 100;
// Drivers keep samples of processes that have ended; a sample is believed this long after the
// newest one (the driver takes them every 1/6 to 1 s).
constexpr std::uint64_t kSampleLifeUs = 2'000'000;

using ByPid = std::map<std::int64_t, ProcessUse>;

std::optional<MiB> memory_of(std::uint64_t bytes) {
  if (bytes == kNotAvailable) return std::nullopt;
  return MiB::from(static_cast<std::int64_t>(bytes / kBytesPerMiB));
}

// Asks with room for more until it is enough. `ask` is given room for a number of entries and
// answers a code; the number becomes what there is.
template <class PlacementContext>
bool ask_with_room(unsigned& count, const PlacementContext& ask) {
  count = kFirstGuess;
  for (int i = 0; i < kGuesses; ++i) {
    const unsigned room = count;
    const int code = ask(count);
    if (code == kOk) count = std::min(count, room);
    if (code != kInsufficientSize) return code == kOk;
    // Some more, since processes start between two questions.
    count = std::min<unsigned>(std::max(count, room) * 2, kProcessesPerCardMax);
  }
  return false;
}

// A process is on several lists with the same memory.
void add_processes(const ProcessList& list, Device device, ByPid& processes) {
  if (!list) return;
  std::vector<unsigned char> entries;
  unsigned count = 0;
  const bool answered = ask_with_room(count, [&](unsigned& number) {
    entries.assign(number * list.entry_bytes, 0);
    return list.get(device, &number, entries.data());
  });
  for (unsigned i = 0; answered && i < count; ++i) {
    ProcessInfoV1 entry{};  // how every version begins
    std::memcpy(&entry, entries.data() + i * list.entry_bytes, sizeof entry);
    ProcessUse& process = processes[entry.pid];
    process.pid = entry.pid;
    process.memory = std::max(process.memory, memory_of(entry.used));
  }
}

std::vector<UtilizationSample> samples_of(const Functions& f, Device device, std::uint64_t since) {
  std::vector<UtilizationSample> samples;
  if (f.process_utilization == nullptr) return samples;
  unsigned count = 0;
  const bool answered = ask_with_room(count, [&](unsigned& number) {
    samples.assign(number, {});
    return f.process_utilization(device, samples.data(), &number, since);
  });
  samples.resize(answered ? count : 0);
  return samples;
}

// The newest sample of each process.
void add_samples(const Functions& f, Device device, std::uint64_t& seen_us, ByPid& processes) {
  const auto samples = samples_of(f, device, seen_us);
  std::uint64_t newest = seen_us;
  for (const UtilizationSample& sample : samples) newest = std::max(newest, sample.time_us);
  std::map<std::int64_t, std::uint64_t> times;
  for (const UtilizationSample& sample : samples) {
    // A percentage over 100 is the driver's way to say that it has none.
    const bool usable = sample.pid != 0 && sample.sm <= kPercentMax && sample.time_us > seen_us &&
                        newest - sample.time_us <= kSampleLifeUs;
    if (!usable || times[sample.pid] > sample.time_us) continue;
    times[sample.pid] = sample.time_us;
    ProcessUse& process = processes[sample.pid];
    process.pid = sample.pid;
    process.sm_percent = sample.sm;
  }
  seen_us = newest;
}

std::optional<MiB> memory_used(const Functions& f, Device device) {
  MemoryV2 newer{};
  newer.version = kMemoryV2Version;
  if (f.memory_v2 != nullptr && f.memory_v2(device, &newer) == kOk) return memory_of(newer.used);
  Memory memory{};
  if (f.memory(device, &memory) != kOk) return std::nullopt;
  return memory_of(memory.used);
}

}  // namespace

std::optional<CardUse> read_use(const Library& library, Device device, const CardUuid& uuid,
                                std::uint64_t& seen_us) {
  const Functions& f = library.functions();
  CardUse use{
      .uuid = uuid, .memory_used = memory_used(f, device), .sm_percent = {}, .processes = {}};
  if (!use.memory_used) return std::nullopt;
  Utilization rates{};
  if (f.utilization != nullptr && f.utilization(device, &rates) == kOk &&
      rates.gpu <= kPercentMax) {
    use.sm_percent = rates.gpu;
  }
  ByPid processes;
  for (const ProcessList& list : {f.compute, f.graphics, f.mps}) {
    add_processes(list, device, processes);
  }
  add_samples(f, device, seen_us, processes);
  for (const auto& [pid, process] : processes) {
    if (use.processes.size() < kProcessesPerCardMax) use.processes.push_back(process);
  }
  return use;
}

}  // namespace mgpu::plugin::nvml
