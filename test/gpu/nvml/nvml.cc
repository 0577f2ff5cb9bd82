// A fake of libnvidia-ml.so.1. Where MGPU_FAKE_GPU names a fake machine, it tells of its cards and
// of the programs that use them, at the same moment as its libcuda.so.1. The file of
// MGPU_FAKE_NVML, which is read again at every call, says what is otherwise, or describes cards of
// which there is no machine:
//
//   driver 580.95.05
//   nvml 12.580.95.05
//   card <uuid> [minor=0] [memory=<MiB>] [used=<MiB>] [reserved=<MiB>] [name=<text>] [mig=0]
//               [pending=0] [action=0] [remap_failed=0] [events=8] [gpu=0] [mode=0]
//               [persistence=0] [capability=90] [fabric=0] [fabric_status=0]
//   instance <uuid> of=<uuid> gi=<number> ci=<number> [memory=<MiB>] [used=<MiB>] [name=<text>]
//                                        a MIG device of a card
//   links <uuid> <link>...               to each card, as nvidia-smi topo -m has them; "NV2s" leads
//                                        to switches, "NV2?" to what cannot be identified
//   process <uuid> <compute|graphics|mps> <pid> <bytes>
//   sample <uuid> <pid> <time us> <sm>
//   confidential <accepts work>          confidential computing is on
//   fail <function> <code> [<uuid>]
//   hang <function> [<uuid>]             as long as this line is there
//   readback <uuid> <bytes>              the hard limit that is read, whatever was set
//   keep_mode <uuid>                     a compute mode that is set has no effect
//   opens <path>                         from its start to its end the library keeps this file open
//   leaks                                and longer
//
// A "_" of a name is a space. Lines of other kinds are ignored, such as "smi", which belongs to
// fake_nvidia_smi.cc. Without "reserved" the driver reserves 0, but nvmlDeviceGetMemoryInfo, which
// counts it as used, adds 400 MiB. Events are lines "<uuid> <type> <value>" of <file>.events; each
// occurs once. Every start, stop and "set_mode <n>" is written to <file>.log. Compute modes that
// were set are lines "<uuid> <n>" of <file>.mode, of which the last one counts.
//
// The memory limits of cgroups are lines "<uuid> <cgroup> <soft> <hard>" of <file>.limits, of which
// the last one counts.
//
// Of a machine, ".mode" and ".limits" are beside it, and its libcuda.so.1 reads them. "memory",
// "used" and "reserved" are those of the machine.
//
// It is built for a machine, and four times for the tests of the device plugin: as a current
// driver, as an old one without newer functions (FAKE_NVML_OLD), as one of R615, which limits the
// memory of cgroups (FAKE_NVML_R615), and as a library that is not NVML (FAKE_NVML_BROKEN). The
// driver's version says whether lists "_v3" have longer entries (535.43 to 535.86), and whether a
// recovery action is reported (R570 and later).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/cards/nvml/nvml_abi.h"
#include "test/gpu/machine.h"

namespace mgpu::plugin::nvml {

struct DeviceHandle {
  std::string uuid;
};
struct EventSetHandle {
  std::vector<Event> xids;  // of the scenario, which occur when somebody first waits for them
  std::map<Device, std::uint64_t> seen;  // of those that were sent
};

namespace {

using Words = std::vector<std::string>;

std::string file_name() {
  const char* const name = std::getenv("MGPU_FAKE_NVML");
  return name != nullptr ? name : "/nonexistent";
}

std::atomic<int> starts = 0;
// Programs may change their environment after the start. This is plain data, because threads may
// call functions until the very end.
char started_with[1024];

std::string machine_name() {
  const char* const name = std::getenv("MGPU_FAKE_GPU");
  return started_with[0] != 0 ? started_with : name != nullptr ? name : "";
}

// One that this thread has open is not opened again, which takes most of the time of a call.
std::shared_ptr<fake_gpu::Machine> machine() {
  thread_local std::weak_ptr<fake_gpu::Machine> last;
  if (auto open = last.lock()) return open;
  std::string why;
  if (machine_name().empty()) return nullptr;
  std::shared_ptr opened = fake_gpu::Machine::open(machine_name(), why);
  if (opened == nullptr) std::cerr << "fake libnvidia-ml.so.1: MGPU_FAKE_GPU: " << why << "\n";
  last = opened;
  return opened;
}

// The file of what is set: beside the machine if there is one.
std::string settings_file(const std::string& kind) {
  return (machine_name().empty() ? file_name() : machine_name()) + "." + kind;
}

std::vector<Words> lines_of(const std::string& path) {
  std::vector<Words> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Words read;
    for (std::string word; words >> word;) read.push_back(word);
    if (!read.empty()) lines.push_back(read);
  }
  return lines;
}

void log(const std::string& text) {
  std::ofstream(file_name() + ".log", std::ios::app) << text << "\n";
}

// The lines that begin with `kind`, and with `uuid` if that is not empty.
std::vector<Words> lines(const std::string& kind, const std::string& uuid = "") {
  std::vector<Words> found;
  if (std::getenv("MGPU_FAKE_NVML") == nullptr) return found;
  for (const Words& line : lines_of(file_name())) {
    if (line[0] == kind && (uuid.empty() || line.at(1) == uuid)) found.push_back(line);
  }
  return found;
}

bool hangs(const std::string& function, const std::string& uuid) {
  for (const Words& line : lines("hang")) {
    if (line.at(1) == function && (line.size() < 3 || line[2] == uuid)) return true;
  }
  return false;
}

struct MachineCard {
  std::shared_ptr<fake_gpu::Machine> machine;
  int index = -1;
  explicit operator bool() const { return index >= 0; }
  const fake_gpu::CardState& state() const { return machine->card(index); }
  // What a MIG device has taken, its card has, too.
  std::vector<int> with_instances() const {
    std::vector<int> found;
    for (int i = 0; index >= 0 && i < machine->card_count(); ++i) {
      if (i == index || machine->card(i).parent == index) found.push_back(i);
    }
    return found;
  }
};

MachineCard machine_card(Device device) {
  MachineCard card{machine()};
  if (card.machine != nullptr && device != nullptr)
    card.index = card.machine->index_of(device->uuid);
  return card;
}

// The configured error of a function. Blocks while the function is to hang.
int failure_of(const std::string& function, Device device = nullptr) {
  if (starts == 0 && function != "nvmlInit_v2") return kUninitialized;
  const std::string uuid = device != nullptr ? device->uuid : "";
  while (hangs(function, uuid)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (const Words& line : lines("fail")) {
    if (line.at(1) != function || (line.size() > 3 && line[3] != uuid)) continue;
    return std::stoi(line.at(2));
  }
  const MachineCard card = machine_card(device);
  return card && card.machine->is_lost(card.index) ? kGpuIsLost : kOk;
}

// Empty if nothing says it.
std::string driver_release() {
  const auto found = lines("driver");
  if (!found.empty()) return found[0].at(1);
  const auto of = machine();
  return of == nullptr ? "" : of->driver_release();
}

struct Release {
  int major = 0;
  int minor = 0;
};

Release release() {
  Release found;
  std::sscanf(driver_release().c_str(), "%d.%d", &found.major, &found.minor);
  return found;
}

constexpr int kRecoveryActionSince = 570;

std::string machine_member(Device device, const std::string& name, const std::string& otherwise) {
  const MachineCard card = machine_card(device);
  if (!card) return otherwise;
  const fake_gpu::CardState& state = card.state();
  const std::map<std::string, std::uint64_t> numbers = {
      {"memory", state.memory >> 20},
      {"minor", card.index},
      {"mig", state.is_mig},
      {"gi", state.gpu_instance},
      {"ci", state.compute_instance},
      {"capability", state.compute_major * 10 + state.compute_minor},
      {"multiprocessors", state.multiprocessors},
      {"action", state.health.recovery_action},
      {"remap_failed", state.health.remap_failed},
      {"fabric", state.health.fabric_state},
      {"fabric_status", state.health.fabric_status},
      {"gpu", card.machine->utilization(card.index)},
  };
  if (name == "name") return state.model;
  if (name == "of" && state.parent >= 0) return card.machine->card(state.parent).uuid;
  if (name == "action" && release().major < kRecoveryActionSince) return otherwise;
  const auto found = numbers.find(name);
  return found == numbers.end() ? otherwise : std::to_string(found->second);
}

std::string member(Device device, const std::string& name, const std::string& otherwise) {
  for (const char* const kind : {"card", "instance"}) {
    for (const Words& line : lines(kind, device->uuid)) {
      for (const std::string& word : line) {
        if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
      }
    }
  }
  return machine_member(device, name, otherwise);
}

std::uint64_t number(Device device, const std::string& name, const std::string& otherwise = "0") {
  return std::stoull(member(device, name, otherwise));
}

std::vector<std::string> uuids() {
  std::vector<std::string> found;
  const auto opened = machine();
  for (int i = 0; opened != nullptr && i < opened->card_count(); ++i) {
    if (opened->card(i).parent < 0) found.emplace_back(opened->card(i).uuid);
  }
  if (opened != nullptr) return found;
  for (const Words& line : lines("card")) found.push_back(line.at(1));
  return found;
}

// A card has one handle for as long as the library is loaded.
Device handle_of(const std::string& uuid) {
  static std::mutex mutex;
  static std::map<std::string, DeviceHandle> handles;
  const std::lock_guard lock(mutex);
  return &handles.try_emplace(uuid, DeviceHandle{uuid}).first->second;
}

// Threads may start and stop NVML at the same time (NVML API Reference, "Thread safety").
std::mutex start_mutex;
// The file that is open while the library is started; negative: none.
int opened = -1;

void open_file() {
  const std::lock_guard lock(start_mutex);
  const auto found = lines("opens");
  const std::string name = machine_name();
  if (started_with != name) std::snprintf(started_with, sizeof started_with, "%s", name.c_str());
  if (starts++ == 0 && !found.empty() && opened < 0)
    opened = ::open(found[0].at(1).c_str(), O_RDONLY | O_CLOEXEC);
}

int close_file() {
  const std::lock_guard lock(start_mutex);
  if (starts == 0) return kUninitialized;
  if (--starts > 0) return kOk;
  if (started_with[0] != 0) started_with[0] = 0;
  if (opened < 0 || !lines("leaks").empty()) return kOk;
  ::close(opened);
  opened = -1;
  return kOk;
}

int give(const std::string& text, char* out, unsigned bytes) {
  if (text.size() >= bytes) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kOk;
}

// --- memory and processes ------------------------------------------------------------------------

struct Amounts {
  std::uint64_t total = 0;
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;  // without what is reserved
};

// A machine's as measured on an H200 with driver 580.159.04: what is free is what CUDA says, and
// the list of processes shows no managed memory and nothing that is exported after its release.
Amounts amounts_of(Device device, const std::string& reserved_mib) {
  if (const MachineCard card = machine_card(device)) {
    const std::uint64_t seen = card.machine->total(card.index);
    std::uint64_t used = 0;
    for (const int index : card.with_instances()) {
      used += card.machine->total(index) - card.machine->free(index);
    }
    return {card.state().memory, card.state().memory - seen, used};
  }
  return {number(device, "memory", "32510") << 20, number(device, "reserved", reserved_mib) << 20,
          number(device, "used") << 20};
}

// The entries of lists "_v3" of drivers 535.43 to 535.86.
struct LongProcessInfo {
  std::uint32_t pid;
  std::uint64_t used;
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
  std::uint64_t used_protected;  // usedGpuCcProtectedMemory
};
static_assert(sizeof(LongProcessInfo) == 32 && offsetof(LongProcessInfo, used_protected) == 24);

template <class Entry>
int give_processes(const std::string& function, const std::string& list, Device device,
                   unsigned* count, void* out) {
  if (const int code = failure_of(function, device); code != kOk) return code;
  std::vector<Entry> entries;
  for (const Words& line : lines("process", device->uuid)) {
    if (line.at(2) != list) continue;
    Entry entry{};
    entry.pid = static_cast<std::uint32_t>(std::stoul(line.at(3)));
    entry.used = std::stoull(line.at(4));
    entries.push_back(entry);
  }
  // The driver lists clients of MPS as compute processes, too.
  const MachineCard card = machine_card(device);
  for (const int index : card.with_instances()) {
    for (const auto& process : card.machine->processes(index)) {
      if (list != "compute" && !(list == "mps" && process.is_mps_client)) continue;
      Entry entry{};
      entry.pid = static_cast<std::uint32_t>(process.pid);
      entry.used = process.bytes;
      entries.push_back(entry);
    }
  }
  const bool fits = entries.size() <= *count;
  if (fits && !entries.empty()) std::memcpy(out, entries.data(), entries.size() * sizeof(Entry));
  *count = static_cast<unsigned>(entries.size());
  return fits ? kOk : kInsufficientSize;
}

#ifndef FAKE_NVML_OLD
// The lists "_v3".
int give_newest(const std::string& function, const std::string& list, Device device,
                unsigned* count, void* out) {
  const MachineCard card = machine_card(device);  // keeps the machine open for all that follows
  const Release of = release();
  const bool is_long = of.major == 535 && of.minor >= 43 && of.minor <= 86;
  return (is_long ? give_processes<LongProcessInfo>
                  : give_processes<ProcessInfo>)(function, list, device, count, out);
}
#endif

// --- links --------------------------------------------------------------------------------------

#ifndef FAKE_NVML_OLD
// The word of a card about the other one; empty if there is none.
std::string link_to(Device device, std::size_t other) {
  const auto found = lines("links", device->uuid);
  if (!found.empty()) return found[0].size() < other + 3 ? "" : found[0][other + 2];
  const MachineCard card = machine_card(device);
  return card ? card.machine->link(card.index, static_cast<int>(other)) : "";
}

bool has_links(Device device) {
  const std::size_t count = uuids().size();
  for (std::size_t other = 0; other < count; ++other) {
    if (!link_to(device, other).empty()) return true;
  }
  return false;
}

// One end of an active NVLink.
struct NvlinkEnd {
  std::string uuid;  // empty: a switch, or unknown
  bool known = true;
};

std::vector<NvlinkEnd> nvlinks_of(Device device) {
  std::vector<NvlinkEnd> ends;
  const auto cards = uuids();
  for (std::size_t other = 0; other < cards.size(); ++other) {
    const std::string word = link_to(device, other);
    if (!word.starts_with("NV")) continue;
    const bool direct = word.find_first_of("s?") == word.npos;
    // All links to switches are in one word.
    const auto before = [&](const NvlinkEnd& end) { return end.uuid.empty(); };
    if (!direct && std::any_of(ends.begin(), ends.end(), before)) continue;
    for (int i = 0; i < std::stoi(word.substr(2)); ++i)
      ends.push_back({direct ? cards[other] : "", word.back() != '?'});
  }
  return ends;
}

int give_place(Device device, PciInfo* info) {
  *info = {};
  info->bus = 1 + static_cast<std::uint32_t>(number(device, "minor"));
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
  std::snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "0000:%02X:00.0", info->bus);
  return kOk;
}

#endif

// --- the compute mode ----------------------------------------------------------------------------

unsigned compute_mode(Device device) {
  std::uint64_t mode = number(device, "mode");
  for (const Words& line : lines_of(settings_file("mode"))) {
    if (line.at(0) == device->uuid) mode = std::stoull(line.at(1));
  }
  return static_cast<unsigned>(mode);
}

#ifndef FAKE_NVML_OLD
// Of a card that sends many, only the last ones are kept.
bool take_sent(EventSet set, Event* event) {
  for (auto& [device, seen] : set->seen) {
    const MachineCard card = machine_card(device);
    const std::uint64_t sent = card ? card.state().sent_count.load() : 0;
    if (seen >= sent) continue;
    if (sent - seen > fake_gpu::kXidsMax) seen = sent - fake_gpu::kXidsMax;
    *event = {device, kEventXid, card.state().sent_xids[seen++ % fake_gpu::kXidsMax], ~0U, ~0U};
    return true;
  }
  return false;
}
#endif

}  // namespace
}  // namespace mgpu::plugin::nvml

#define FAKE_NVML extern "C" __attribute__((visibility("default")))
#define FAKE_NVML_ALIAS(name, target) \
  extern "C" __attribute__((visibility("default"), alias(#target))) decltype(target) name

// NOLINTBEGIN: the names are NVML's.
using namespace mgpu::plugin::nvml;

FAKE_NVML int nvmlInit_v2() {
  const int code = failure_of("nvmlInit_v2");
  if (code != kOk) return code;
  if (std::getenv("MGPU_FAKE_NVML") == nullptr && machine() == nullptr) return kDriverNotLoaded;
  log("init");
  open_file();
  return kOk;
}
FAKE_NVML_ALIAS(nvmlInit, nvmlInit_v2);
FAKE_NVML int nvmlInitWithFlags(unsigned) {
  return nvmlInit_v2();
}

FAKE_NVML int nvmlShutdown() {
  log("shutdown");
  return close_file();
}

FAKE_NVML const char* nvmlErrorString(int code) {
  return code == kGpuIsLost         ? "GPU is lost"
         : code == kDriverNotLoaded ? "Driver Not Loaded"
                                    : "Other";
}

FAKE_NVML int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(uuids().size());
  return failure_of("nvmlDeviceGetCount_v2");
}
FAKE_NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

FAKE_NVML int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  const auto cards = uuids();
  if (index >= cards.size()) return kInvalidArgument;
  *device = handle_of(cards[index]);
  return failure_of("nvmlDeviceGetHandleByIndex_v2", *device);
}

FAKE_NVML int nvmlDeviceGetUUID(Device device, char* text, unsigned bytes) {
  if (device == nullptr) return kInvalidArgument;
  const int code = failure_of("nvmlDeviceGetUUID", device);
  return code == kOk ? give(device->uuid, text, bytes) : code;
}

FAKE_NVML int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  if (device == nullptr) return kInvalidArgument;
  const Amounts amounts = amounts_of(device, "400");
  memory->total = amounts.total;
  memory->used = amounts.used + amounts.reserved;
  memory->free = memory->total - std::min(memory->used, memory->total);
  return failure_of("nvmlDeviceGetMemoryInfo", device);
}

FAKE_NVML int nvmlDeviceGetComputeMode(Device device, unsigned* mode) {
  *mode = compute_mode(device);
  return failure_of("nvmlDeviceGetComputeMode", device);
}

FAKE_NVML int nvmlDeviceSetComputeMode(Device device, unsigned mode) {
  const int code = failure_of("nvmlDeviceSetComputeMode", device);
  if (code != kOk) return code;
  if (lines("keep_mode", device->uuid).empty()) {
    std::ofstream(settings_file("mode"), std::ios::app) << device->uuid << " " << mode << "\n";
  }
  log("set_mode " + std::to_string(mode));
  return kOk;
}

FAKE_NVML int nvmlDeviceGetPersistenceMode(Device device, unsigned* mode) {
  *mode = static_cast<unsigned>(number(device, "persistence"));
  return failure_of("nvmlDeviceGetPersistenceMode", device);
}

FAKE_NVML int nvmlDeviceGetClockInfo(Device device, int, unsigned* mhz) {
  *mhz = 1980;
  return failure_of("nvmlDeviceGetClockInfo", device);
}

FAKE_NVML int nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  *milliwatts = 650'000;
  return failure_of("nvmlDeviceGetPowerUsage", device);
}

FAKE_NVML int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  const auto capability = static_cast<int>(number(device, "capability", "90"));
  *major = capability / 10;
  *minor = capability % 10;
  return failure_of("nvmlDeviceGetCudaComputeCapability", device);
}

#ifndef FAKE_NVML_BROKEN
FAKE_NVML int nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  *minor = static_cast<unsigned>(number(device, "minor"));
  return failure_of("nvmlDeviceGetMinorNumber", device);
}
#endif

#ifdef FAKE_NVML_OLD
FAKE_NVML int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, void* out) {
  return give_processes<ProcessInfoV1>("nvmlDeviceGetComputeRunningProcesses", "compute", device,
                                       count, out);
}
#else
// Also of a card of which a client of MPS sees a part.
FAKE_NVML int nvmlDeviceGetNumGpuCores(Device device, unsigned* cores) {
  const std::uint64_t capability = number(device, "capability", "90");
  const unsigned each = capability / 10 == 7 || capability == 80 ? 64 : 128;
  *cores = each * static_cast<unsigned>(number(device, "multiprocessors", "132"));
  return failure_of("nvmlDeviceGetNumGpuCores", device);
}

FAKE_NVML int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  const std::string release = driver_release();
  return release.empty() ? kNotSupported : give(release, text, bytes);
}

FAKE_NVML int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const auto of = machine();
  *version = of == nullptr ? 13'000 : of->cuda_version();
  return failure_of("nvmlSystemGetCudaDriverVersion_v2");
}
FAKE_NVML_ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

FAKE_NVML int nvmlDeviceGetIndex(Device device, unsigned* index) {
  const auto cards = uuids();
  const auto found = std::find(cards.begin(), cards.end(), device->uuid);
  *index = static_cast<unsigned>(found - cards.begin());
  return found == cards.end() ? int{kNotFound} : failure_of("nvmlDeviceGetIndex", device);
}

FAKE_NVML int nvmlSystemGetNVMLVersion(char* text, unsigned bytes) {
  const auto found = lines("nvml");
  if (!found.empty()) return give(found[0].at(1), text, bytes);
  const auto of = machine();
  if (of == nullptr) return kNotSupported;
  return give(std::to_string(of->cuda_version() / 1000) + "." + of->driver_release(), text, bytes);
}

FAKE_NVML int nvmlDeviceGetName(Device device, char* text, unsigned bytes) {
  const int code = failure_of("nvmlDeviceGetName", device);
  std::string name = member(device, "name", "H100");
  std::ranges::replace(name, '_', ' ');
  return code == kOk ? give(name, text, bytes) : code;
}

FAKE_NVML int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  if (memory->version != kMemoryV2Version) return kArgumentVersionMismatch;
  const Amounts amounts = amounts_of(device, "0");
  memory->total = amounts.total;
  memory->reserved = amounts.reserved;
  memory->used = amounts.used;
  memory->free = memory->total - std::min(memory->reserved + memory->used, memory->total);
  return failure_of("nvmlDeviceGetMemoryInfo_v2", device);
}

FAKE_NVML int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  *current = static_cast<unsigned>(number(device, "mig"));
  *pending = static_cast<unsigned>(number(device, "pending"));
  return failure_of("nvmlDeviceGetMigMode", device);
}

FAKE_NVML int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  const auto cards = uuids();
  if (std::find(cards.begin(), cards.end(), uuid) == cards.end()) return kNotFound;
  *device = handle_of(uuid);
  return failure_of("nvmlDeviceGetHandleByUUID", *device);
}

FAKE_NVML int nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  *count = 7;
  return failure_of("nvmlDeviceGetMaxMigDeviceCount", device);
}

FAKE_NVML int nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* instance) {
  std::vector<std::string> found;
  for (const Words& line : lines("instance")) found.push_back(line.at(1));
  const MachineCard card = machine_card(device);
  for (const int of_card : card.with_instances()) {
    if (of_card != card.index) found.emplace_back(card.machine->card(of_card).uuid);
  }
  for (const std::string& uuid : found) {
    if (member(handle_of(uuid), "of", "") != device->uuid || index-- > 0) continue;
    *instance = handle_of(uuid);
    return failure_of("nvmlDeviceGetMigDeviceHandleByIndex", device);
  }
  return kNotFound;
}

FAKE_NVML int nvmlDeviceGetGpuInstanceId(Device instance, unsigned* id) {
  *id = static_cast<unsigned>(number(instance, "gi"));
  return failure_of("nvmlDeviceGetGpuInstanceId", instance);
}

FAKE_NVML int nvmlDeviceGetComputeInstanceId(Device instance, unsigned* id) {
  *id = static_cast<unsigned>(number(instance, "ci"));
  return failure_of("nvmlDeviceGetComputeInstanceId", instance);
}

FAKE_NVML int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  give_place(device, info);
  return failure_of("nvmlDeviceGetPciInfo_v3", device);
}

FAKE_NVML int nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int* level) {
  const auto cards = uuids();
  for (std::size_t other = 0; other < cards.size(); ++other) {
    if (cards[other] != b->uuid) continue;
    const std::string word = link_to(a, other);
    if (word.empty()) return kNotSupported;
    *level = word == "PIX"    ? 10
             : word == "PXB"  ? 20
             : word == "PHB"  ? 30
             : word == "NODE" ? 40
                              : 50;
  }
  return failure_of("nvmlDeviceGetTopologyCommonAncestor", a);
}

FAKE_NVML int nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned* active) {
  constexpr unsigned kSlots = 18;
  if (!has_links(device)) return kNotSupported;
  if (link >= kSlots) return kInvalidArgument;
  *active = link < nvlinks_of(device).size() ? kEnabled : 0;
  return failure_of("nvmlDeviceGetNvLinkState", device);
}

FAKE_NVML int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo* info) {
  const auto ends = nvlinks_of(device);
  if (link >= ends.size()) return kInvalidArgument;
  if (!ends[link].known) return kNotSupported;
  if (!ends[link].uuid.empty()) return give_place(handle_of(ends[link].uuid), info);
  *info = {};
  info->bus = 200 + link;
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
  return failure_of("nvmlDeviceGetNvLinkRemotePciInfo_v2", device);
}

FAKE_NVML int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, int* type) {
  const auto ends = nvlinks_of(device);
  if (link >= ends.size()) return kInvalidArgument;
  *type = !ends[link].known ? 255 : ends[link].uuid.empty() ? 2 : 0;
  return failure_of("nvmlDeviceGetNvLinkRemoteDeviceType", device);
}

FAKE_NVML int nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  rates->gpu = static_cast<std::uint32_t>(number(device, "gpu"));
  return failure_of("nvmlDeviceGetUtilizationRates", device);
}

FAKE_NVML int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, void* out) {
  return give_newest("nvmlDeviceGetComputeRunningProcesses_v3", "compute", device, count, out);
}

FAKE_NVML int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, void* out) {
  return give_processes<ProcessInfo>("nvmlDeviceGetComputeRunningProcesses_v2", "compute", device,
                                     count, out);
}

// The oldest layout. The plugin, which calls this name here, has not bound name and layout
// together.
FAKE_NVML int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, void* out) {
  if (machine_name().empty()) std::abort();
  return give_processes<ProcessInfoV1>("nvmlDeviceGetComputeRunningProcesses", "compute", device,
                                       count, out);
}

FAKE_NVML int nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count, void* out) {
  return give_processes<ProcessInfo>("nvmlDeviceGetGraphicsRunningProcesses_v2", "graphics", device,
                                     count, out);
}

FAKE_NVML int nvmlDeviceGetMPSComputeRunningProcesses(Device device, unsigned* count, void* out) {
  if (machine_name().empty()) std::abort();
  return give_processes<ProcessInfoV1>("nvmlDeviceGetMPSComputeRunningProcesses", "mps", device,
                                       count, out);
}

FAKE_NVML int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count,
                                                         void* out) {
  return give_newest("nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps", device, count, out);
}

FAKE_NVML int nvmlDeviceGetMPSComputeRunningProcesses_v2(Device device, unsigned* count,
                                                         void* out) {
  return give_processes<ProcessInfo>("nvmlDeviceGetMPSComputeRunningProcesses_v2", "mps", device,
                                     count, out);
}

FAKE_NVML int nvmlDeviceGetProcessUtilization(Device device, UtilizationSample* out,
                                              unsigned* count, unsigned long long since) {
  if (const int code = failure_of("nvmlDeviceGetProcessUtilization", device); code != kOk)
    return code;
  std::vector<UtilizationSample> samples;
  for (const Words& line : lines("sample", device->uuid)) {
    UtilizationSample sample{};
    sample.pid = static_cast<std::uint32_t>(std::stoul(line.at(2)));
    sample.time_us = std::stoull(line.at(3));
    sample.sm = static_cast<std::uint32_t>(std::stoul(line.at(4)));
    if (sample.time_us > since) samples.push_back(sample);
  }
  if (const MachineCard card = machine_card(device); card && card.machine->is_virtual()) {
    const auto clock = static_cast<std::uint64_t>(card.machine->clock());
    const std::uint64_t time_us =
        clock / mgpu::fake_gpu::kSampleNanoseconds * mgpu::fake_gpu::kSampleNanoseconds / 1'000;
    for (const auto& process : card.machine->processes(card.index)) {
      if (time_us <= since || process.percent == 0) continue;
      samples.push_back({.pid = static_cast<std::uint32_t>(process.pid),
                         .time_us = time_us,
                         .sm = process.percent,
                         .memory = 0,
                         .encoder = 0,
                         .decoder = 0});
    }
  }
  const bool fits = samples.size() <= *count;
  for (std::size_t i = 0; fits && i < samples.size(); ++i) out[i] = samples[i];
  *count = static_cast<unsigned>(samples.size());
  return samples.empty() ? kNotFound : fits ? kOk : kInsufficientSize;
}

FAKE_NVML int nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const bool known =
        values[i].field == kFieldRecoveryAction && !member(device, "action", "").empty();
    values[i].code = known ? kOk : kNotSupported;
    values[i].type = kValueUnsigned;
    values[i].value.whole = static_cast<std::uint32_t>(number(device, "action"));
  }
  return failure_of("nvmlDeviceGetFieldValues", device);
}

FAKE_NVML int nvmlDeviceGetRemappedRows(Device device, unsigned* correctable,
                                        unsigned* uncorrectable, unsigned* pending,
                                        unsigned* failed) {
  *correctable = *uncorrectable = *pending = 0;
  *failed = static_cast<unsigned>(number(device, "remap_failed"));
  return failure_of("nvmlDeviceGetRemappedRows", device);
}

FAKE_NVML int nvmlDeviceGetGpuFabricInfo(Device device, FabricInfo* info) {
  *info = {};
  info->state = static_cast<std::uint8_t>(number(device, "fabric"));
  info->status = static_cast<std::int32_t>(number(device, "fabric_status"));
  return failure_of("nvmlDeviceGetGpuFabricInfo", device);
}

FAKE_NVML int nvmlSystemGetConfComputeState(ConfidentialState* state) {
  *state = {};
  state->feature = lines("confidential").empty() ? 0 : kEnabled;
  return failure_of("nvmlSystemGetConfComputeState");
}

FAKE_NVML int nvmlSystemGetConfComputeGpusReadyState(unsigned* accepting) {
  const auto found = lines("confidential");
  *accepting = found.empty() ? 0 : static_cast<unsigned>(std::stoul(found[0].at(1)));
  return failure_of("nvmlSystemGetConfComputeGpusReadyState");
}

FAKE_NVML int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  *types = number(device, "events", "8");
  return failure_of("nvmlDeviceGetSupportedEventTypes", device);
}

FAKE_NVML int nvmlDeviceRegisterEvents(Device device, unsigned long long, EventSet set) {
  const int code = failure_of("nvmlDeviceRegisterEvents", device);
  if (code == kOk) log("register " + device->uuid);
  const MachineCard card = machine_card(device);
  if (card && code == kOk) set->seen[device] = card.state().sent_count;
  for (int i = 0; card && code == kOk && i < card.state().xid_count; ++i) {
    set->xids.push_back({device, kEventXid, card.state().xids[i], ~0U, ~0U});
  }
  return code;
}

FAKE_NVML int nvmlEventSetCreate(EventSet* set) {
  *set = new EventSetHandle;
  return failure_of("nvmlEventSetCreate");
}

FAKE_NVML int nvmlEventSetFree(EventSet set) {
  delete set;
  return kOk;
}

FAKE_NVML int nvmlEventSetWait_v2(EventSet set, Event* event, unsigned timeout_ms) {
  if (!set->xids.empty()) {
    *event = set->xids.front();
    set->xids.erase(set->xids.begin());
    return kOk;
  }
  static std::vector<Words> waiting;
  for (unsigned waited = 0;; ++waited) {
    if (const int code = failure_of("nvmlEventSetWait_v2"); code != kOk) return code;
    if (take_sent(set, event)) return kOk;
    const std::string claimed = file_name() + ".taken";
    std::error_code failed;
    std::filesystem::rename(file_name() + ".events", claimed, failed);
    if (!failed) {
      for (const Words& line : lines_of(claimed)) waiting.push_back(line);
    }
    if (!waiting.empty()) break;
    if (waited >= timeout_ms) return kTimeout;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  *event = {};
  event->device = handle_of(waiting.front().at(0));
  event->type = std::stoull(waiting.front().at(1));
  event->value = std::stoull(waiting.front().at(2));
  waiting.erase(waiting.begin());
  return kOk;
}
#endif

#ifdef FAKE_NVML_R615
FAKE_NVML int nvmlDeviceSetMemoryLimits_v1(Device device, SetMemoryLimits* limits) {
  const int code = failure_of("nvmlDeviceSetMemoryLimits_v1", device);
  if (code != kOk) return code;
  if (number(device, "mig") != 0) return kNotSupported;
  if (!std::filesystem::is_directory(limits->cgroup)) return kNotFound;
  std::ofstream(settings_file("limits"), std::ios::app)
      << device->uuid << " " << limits->cgroup << " " << limits->soft << " " << limits->hard
      << "\n";
  return kOk;
}

FAKE_NVML int nvmlDeviceGetMemoryLimits_v1(Device device, GetMemoryLimits* limits) {
  const int code = failure_of("nvmlDeviceGetMemoryLimits_v1", device);
  if (code != kOk) return code;
  if (!std::filesystem::is_directory(limits->cgroup)) return kNotFound;
  limits->soft = limits->used = 0;
  limits->hard = kNoMemoryLimit;
  for (const Words& line : lines_of(settings_file("limits"))) {
    if (line.at(0) != device->uuid || line.at(1) != limits->cgroup) continue;
    limits->soft = std::stoull(line.at(2));
    limits->hard = std::stoull(line.at(3));
  }
  for (const Words& line : lines("readback", device->uuid)) limits->hard = std::stoull(line.at(2));
  return kOk;
}
#endif
// NOLINTEND
