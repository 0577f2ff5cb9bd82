// A stand-in for libnvidia-ml.so.1. What it answers is in the file that MGPU_FAKE_NVML names, read
// again at every call:
//
//   driver 580.95.05
//   nvml 12.580.95.05
//   card <uuid> [minor=0] [memory=<MiB>] [used=<MiB>] [name=<text>] [mig=0] [pending=0]
//               [action=0] [remap_failed=0] [events=8] [gpu=0]
//   process <uuid> <compute|graphics|mps> <pid> <bytes>
//   sample <uuid> <pid> <time us> <sm>
//   fail <function> <code> [<uuid>]
//   hang <function> [<uuid>]             for as long as the file says so
//
// Events come from <file>.events, "<uuid> <type> <value>" a line, each once. Every start and stop
// is a line in <file>.log. It is built three times: as a driver of today, as an old one without the
// functions that came later (FAKE_NVML_OLD), and as a library that is no NVML (FAKE_NVML_BROKEN).
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/gpu/nvml_abi.h"

namespace mgpu::gpu::nvml {

struct DeviceHandle {
  std::string uuid;
};
struct EventSetHandle {};

namespace {

using Words = std::vector<std::string>;

std::string file_name() {
  const char* const name = std::getenv("MGPU_FAKE_NVML");
  return name != nullptr ? name : "/nonexistent";
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

// The lines that begin with `kind`, and are about `uuid` if that is not empty.
std::vector<Words> lines(const std::string& kind, const std::string& uuid = "") {
  std::vector<Words> found;
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

// What every function asks first.
int trouble(const std::string& function, Device device = nullptr) {
  const std::string uuid = device != nullptr ? device->uuid : "";
  while (hangs(function, uuid)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (const Words& line : lines("fail")) {
    if (line.at(1) != function || (line.size() > 3 && line[3] != uuid)) continue;
    return std::stoi(line.at(2));
  }
  return kOk;
}

std::string member(Device device, const std::string& name, const std::string& otherwise) {
  for (const Words& line : lines("card", device->uuid)) {
    for (const std::string& word : line) {
      if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
    }
  }
  return otherwise;
}

std::uint64_t number(Device device, const std::string& name, const std::string& otherwise = "0") {
  return std::stoull(member(device, name, otherwise));
}

// A card has one handle for as long as the library is loaded.
Device handle_of(const std::string& uuid) {
  static std::map<std::string, DeviceHandle> handles;
  return &handles.try_emplace(uuid, DeviceHandle{uuid}).first->second;
}

int give(const std::string& text, char* out, unsigned bytes) {
  if (text.size() >= bytes) return kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kOk;
}

template <class Entry>
int give_processes(const std::string& function, const std::string& list, Device device,
                   unsigned* count, void* out) {
  if (const int code = trouble(function, device); code != kOk) return code;
  std::vector<Entry> entries;
  for (const Words& line : lines("process", device->uuid)) {
    if (line.at(2) != list) continue;
    Entry entry{};
    entry.pid = static_cast<std::uint32_t>(std::stoul(line.at(3)));
    entry.used = std::stoull(line.at(4));
    entries.push_back(entry);
  }
  const bool fits = entries.size() <= *count;
  if (fits && !entries.empty()) std::memcpy(out, entries.data(), entries.size() * sizeof(Entry));
  *count = static_cast<unsigned>(entries.size());
  return fits ? kOk : kInsufficientSize;
}

}  // namespace
}  // namespace mgpu::gpu::nvml

#define FAKE_NVML extern "C" __attribute__((visibility("default")))

// NOLINTBEGIN: the names are NVML's.
using namespace mgpu::gpu::nvml;

FAKE_NVML int nvmlInit_v2() {
  const int code = trouble("nvmlInit_v2");
  if (code == kOk) log("init");
  return code;
}

FAKE_NVML int nvmlShutdown() {
  log("shutdown");
  return kOk;
}

FAKE_NVML const char* nvmlErrorString(int code) {
  return code == kGpuIsLost         ? "GPU is lost"
         : code == kDriverNotLoaded ? "Driver Not Loaded"
                                    : "Other";
}

FAKE_NVML int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(lines("card").size());
  return trouble("nvmlDeviceGetCount_v2");
}

FAKE_NVML int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  const auto cards = lines("card");
  if (index >= cards.size()) return kInvalidArgument;
  *device = handle_of(cards[index].at(1));
  return trouble("nvmlDeviceGetHandleByIndex_v2", *device);
}

FAKE_NVML int nvmlDeviceGetUUID(Device device, char* text, unsigned bytes) {
  const int code = trouble("nvmlDeviceGetUUID", device);
  return code == kOk ? give(device->uuid, text, bytes) : code;
}

FAKE_NVML int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  memory->total = number(device, "memory", "32510") << 20;
  memory->used = (number(device, "used") + 400) << 20;
  return trouble("nvmlDeviceGetMemoryInfo", device);
}

#ifndef FAKE_NVML_BROKEN
FAKE_NVML int nvmlDeviceGetMinorNumber(Device device, unsigned* minor) {
  *minor = static_cast<unsigned>(number(device, "minor"));
  return trouble("nvmlDeviceGetMinorNumber", device);
}
#endif

#ifdef FAKE_NVML_OLD
FAKE_NVML int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, void* out) {
  return give_processes<ProcessInfoV1>("nvmlDeviceGetComputeRunningProcesses", "compute", device,
                                       count, out);
}
#else
FAKE_NVML int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  const auto found = lines("driver");
  return found.empty() ? kNotSupported : give(found[0].at(1), text, bytes);
}

FAKE_NVML int nvmlSystemGetNVMLVersion(char* text, unsigned bytes) {
  const auto found = lines("nvml");
  return found.empty() ? kNotSupported : give(found[0].at(1), text, bytes);
}

FAKE_NVML int nvmlDeviceGetName(Device device, char* text, unsigned bytes) {
  const int code = trouble("nvmlDeviceGetName", device);
  return code == kOk ? give(member(device, "name", "H100"), text, bytes) : code;
}

FAKE_NVML int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  if (memory->version != kMemoryV2Version) return kArgumentVersionMismatch;
  memory->used = number(device, "used") << 20;
  return trouble("nvmlDeviceGetMemoryInfo_v2", device);
}

FAKE_NVML int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  *current = static_cast<unsigned>(number(device, "mig"));
  *pending = static_cast<unsigned>(number(device, "pending"));
  return trouble("nvmlDeviceGetMigMode", device);
}

FAKE_NVML int nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  rates->gpu = static_cast<std::uint32_t>(number(device, "gpu"));
  return trouble("nvmlDeviceGetUtilizationRates", device);
}

FAKE_NVML int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, void* out) {
  return give_processes<ProcessInfo>("nvmlDeviceGetComputeRunningProcesses_v3", "compute", device,
                                     count, out);
}

// The oldest layout: who asks by this name here has not bound name and layout together.
FAKE_NVML int nvmlDeviceGetComputeRunningProcesses(Device, unsigned*, void*) {
  std::abort();
}

FAKE_NVML int nvmlDeviceGetGraphicsRunningProcesses_v2(Device device, unsigned* count, void* out) {
  return give_processes<ProcessInfo>("nvmlDeviceGetGraphicsRunningProcesses_v2", "graphics", device,
                                     count, out);
}

FAKE_NVML int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned* count,
                                                         void* out) {
  return give_processes<ProcessInfo>("nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps", device,
                                     count, out);
}

FAKE_NVML int nvmlDeviceGetProcessUtilization(Device device, UtilizationSample* out,
                                              unsigned* count, unsigned long long since) {
  if (const int code = trouble("nvmlDeviceGetProcessUtilization", device); code != kOk) return code;
  std::vector<UtilizationSample> samples;
  for (const Words& line : lines("sample", device->uuid)) {
    UtilizationSample sample{};
    sample.pid = static_cast<std::uint32_t>(std::stoul(line.at(2)));
    sample.time_us = std::stoull(line.at(3));
    sample.sm = static_cast<std::uint32_t>(std::stoul(line.at(4)));
    if (sample.time_us > since) samples.push_back(sample);
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
  return trouble("nvmlDeviceGetFieldValues", device);
}

FAKE_NVML int nvmlDeviceGetRemappedRows(Device device, unsigned* correctable,
                                        unsigned* uncorrectable, unsigned* pending,
                                        unsigned* failed) {
  *correctable = *uncorrectable = *pending = 0;
  *failed = static_cast<unsigned>(number(device, "remap_failed"));
  return trouble("nvmlDeviceGetRemappedRows", device);
}

FAKE_NVML int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  *types = number(device, "events", "8");
  return trouble("nvmlDeviceGetSupportedEventTypes", device);
}

FAKE_NVML int nvmlDeviceRegisterEvents(Device device, unsigned long long, EventSet) {
  const int code = trouble("nvmlDeviceRegisterEvents", device);
  if (code == kOk) log("register " + device->uuid);
  return code;
}

FAKE_NVML int nvmlEventSetCreate(EventSet* set) {
  *set = new EventSetHandle;
  return trouble("nvmlEventSetCreate");
}

FAKE_NVML int nvmlEventSetFree(EventSet set) {
  delete set;
  return kOk;
}

FAKE_NVML int nvmlEventSetWait_v2(EventSet, Event* event, unsigned timeout_ms) {
  static std::vector<Words> waiting;
  for (unsigned waited = 0;; ++waited) {
    if (const int code = trouble("nvmlEventSetWait_v2"); code != kOk) return code;
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
// NOLINTEND
