// libnvidia-ml.so.1 of the fake machine: what NVML tells of the cards and processes that
// libcuda.so.1 uses at the same moment. The layouts are those of drivers since R535.86
// (plugin/cards/nvml), the amounts as measured on an H200 with driver 580.159.04: what is free is
// what CUDA says, and the list of processes shows no managed memory and nothing that is exported
// after its release.
//
// It has what the device plugin, nvidia-ml-py and bench/gpu ask for. All else is not found.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugin/cards/nvml/nvml_abi.h"
#include "test/gpu/machine.h"

namespace mgpu::plugin::nvml {

struct DeviceHandle {
  int card = 0;
};
struct EventSetHandle {
  std::vector<Event> waiting;
};

}  // namespace mgpu::plugin::nvml

namespace mgpu::fake_gpu {
namespace {

using namespace plugin::nvml;

struct Nvml {
  std::mutex mutex;
  std::unique_ptr<Machine> machine;
  pid_t opened_by = 0;
  int starts = 0;
  DeviceHandle devices[kCardsMax];
};

// It is never destroyed, because threads may call functions until the very end.
Nvml& nvml() {
  static Nvml& state = *new Nvml;
  return state;
}

// A forked child opens the machine anew, because locks of the parent's file would be its own.
bool open_machine(Nvml& state) {
  if (state.machine != nullptr && state.opened_by == ::getpid()) return true;
  const char* const path = std::getenv("MGPU_FAKE_GPU");
  if (path == nullptr || *path == '\0') return false;
  std::string why;
  state.machine = Machine::open(path, why);
  state.opened_by = ::getpid();
  if (state.machine != nullptr) return true;
  std::cerr << "fake libnvidia-ml.so.1: MGPU_FAKE_GPU: " << why << "\n";
  return false;
}

int start() {
  Nvml& state = nvml();
  const std::lock_guard lock(state.mutex);
  if (!open_machine(state)) return kDriverNotLoaded;
  ++state.starts;
  for (int i = 0; i < kCardsMax; ++i) state.devices[i].card = i;
  return kOk;
}

int stop() {
  Nvml& state = nvml();
  const std::lock_guard lock(state.mutex);
  if (state.starts == 0) return kUninitialized;
  if (--state.starts == 0) state.machine = nullptr;
  return kOk;
}

// The result of run(machine), between nvmlInit and nvmlShutdown.
template <class Run>
int started(Run run) {
  Nvml& state = nvml();
  const std::lock_guard lock(state.mutex);
  if (state.starts == 0) return int{kUninitialized};
  return open_machine(state) ? run(*state.machine) : int{kDriverNotLoaded};
}

// The result of run(machine, card, its state).
template <class Run>
int on_device(Device device, Run run) {
  return started([&](Machine& machine) {
    const auto first = std::begin(nvml().devices);
    if (device < first || device >= first + machine.card_count()) return int{kInvalidArgument};
    return int{run(machine, device->card, machine.card(device->card))};
  });
}

int give(const std::string& text, char* to, unsigned bytes) {
  if (to == nullptr) return kInvalidArgument;
  if (text.size() >= bytes) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kOk;
}

int find_device(Device* device, bool (*is_it)(const CardState&, const void*), const void* wanted) {
  return started([&](Machine& machine) {
    if (device == nullptr || wanted == nullptr) return int{kInvalidArgument};
    for (int i = 0; i < machine.card_count(); ++i) {
      if (!is_it(machine.card(i), wanted)) continue;
      *device = &nvml().devices[i];
      return int{kOk};
    }
    return int{kNotFound};
  });
}

template <class Entry>
int list_processes(Device device, unsigned* count, Entry* entries) {
  return on_device(device, [&](Machine& machine, int card, const CardState&) {
    const std::vector<ProcessUse> processes = machine.processes(card);
    if (count == nullptr) return kInvalidArgument;
    const unsigned room = std::exchange(*count, static_cast<unsigned>(processes.size()));
    if (processes.size() > room) return kInsufficientSize;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      entries[i] = Entry{};
      entries[i].pid = static_cast<std::uint32_t>(processes[i].pid);
      entries[i].used = processes[i].bytes;
      if constexpr (requires { entries[i].gpu_instance; }) {
        entries[i].gpu_instance = entries[i].compute_instance = ~0U;
      }
    }
    return kOk;
  });
}

// Nothing is drawn, and there is no MPS.
int list_nothing(Device device, unsigned* count) {
  return on_device(device, [&](Machine&, int, const CardState&) {
    if (count == nullptr) return kInvalidArgument;
    *count = 0;
    return kOk;
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu

using namespace mgpu::fake_gpu;
using namespace mgpu::plugin::nvml;

#define FAKE_NVML extern "C" __attribute__((visibility("default")))
#define FAKE_NVML_ALIAS(name, target) \
  extern "C" __attribute__((visibility("default"), alias(#target))) decltype(target) name

// NOLINTBEGIN: the names are NVML's.
FAKE_NVML int nvmlInit_v2() {
  return start();
}
FAKE_NVML_ALIAS(nvmlInit, nvmlInit_v2);
FAKE_NVML int nvmlInitWithFlags(unsigned) {
  return start();
}
FAKE_NVML int nvmlShutdown() {
  return stop();
}

FAKE_NVML const char* nvmlErrorString(int code) {
  switch (code) {
    case kOk:
      return "The operation was successful";
    case kUninitialized:
      return "Uninitialized";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    case kNotFound:
      return "Not Found";
    case kInsufficientSize:
      return "Insufficient Size";
    case kDriverNotLoaded:
      return "Driver Not Loaded";
    case kTimeout:
      return "Timeout";
    case kArgumentVersionMismatch:
      return "Argument Version Mismatch";
    default:
      return "Unknown Error";
  }
}

FAKE_NVML int nvmlSystemGetDriverVersion(char* text, unsigned bytes) {
  return started([&](Machine& machine) { return give(machine.driver_release(), text, bytes); });
}

FAKE_NVML int nvmlSystemGetNVMLVersion(char* text, unsigned bytes) {
  return started([&](Machine& machine) {
    return give(std::to_string(machine.cuda_version() / 1000) + "." + machine.driver_release(),
                text, bytes);
  });
}

FAKE_NVML int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  return started([&](Machine& machine) {
    *version = machine.cuda_version();
    return int{kOk};
  });
}
FAKE_NVML_ALIAS(nvmlSystemGetCudaDriverVersion, nvmlSystemGetCudaDriverVersion_v2);

// --- devices -------------------------------------------------------------------------------------

FAKE_NVML int nvmlDeviceGetCount_v2(unsigned* count) {
  return started([&](Machine& machine) {
    *count = static_cast<unsigned>(machine.card_count());
    return int{kOk};
  });
}
FAKE_NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2);

FAKE_NVML int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  return started([&](Machine& machine) {
    const bool known = device != nullptr && index < static_cast<unsigned>(machine.card_count());
    if (known) *device = &nvml().devices[index];
    return int{known ? kOk : kInvalidArgument};
  });
}
FAKE_NVML_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2);

FAKE_NVML int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  return find_device(
      device,
      [](const CardState& card, const void* wanted) {
        return std::strcmp(card.uuid, static_cast<const char*>(wanted)) == 0;
      },
      uuid);
}

FAKE_NVML int nvmlDeviceGetUUID(Device device, char* text, unsigned bytes) {
  return on_device(
      device, [&](Machine&, int, const CardState& card) { return give(card.uuid, text, bytes); });
}

FAKE_NVML int nvmlDeviceGetName(Device device, char* text, unsigned bytes) {
  return on_device(
      device, [&](Machine&, int, const CardState& card) { return give(card.model, text, bytes); });
}

FAKE_NVML int nvmlDeviceGetIndex(Device device, unsigned* index) {
  return on_device(device, [&](Machine&, int card, const CardState&) {
    *index = static_cast<unsigned>(card);
    return kOk;
  });
}
FAKE_NVML_ALIAS(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex);

FAKE_NVML int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return on_device(device, [&](Machine&, int, const CardState& card) {
    *info = {};
    info->bus = static_cast<std::uint32_t>(card.pci_bus);
    std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    std::snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "0000:%02X:00.0", info->bus);
    return kOk;
  });
}

FAKE_NVML int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return on_device(device, [&](Machine&, int, const CardState& card) {
    *major = card.compute_major;
    *minor = card.compute_minor;
    return kOk;
  });
}

FAKE_NVML int nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  return on_device(device, [&](Machine&, int, const CardState& card) {
    *current = *pending = card.is_mig != 0 ? kEnabled : 0;
    return kOk;
  });
}

FAKE_NVML int nvmlDeviceGetComputeMode(Device device, unsigned* mode) {
  return on_device(device, [&](Machine&, int, const CardState&) {
    *mode = kComputeModeDefault;
    return kOk;
  });
}

// --- memory and processes ------------------------------------------------------------------------

FAKE_NVML int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  return on_device(device, [&](Machine& machine, int card, const CardState& state) {
    if (memory == nullptr) return kInvalidArgument;
    memory->total = state.memory;
    memory->free = machine.free(card);
    memory->used = state.memory - memory->free;
    return kOk;
  });
}

FAKE_NVML int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  return on_device(device, [&](Machine& machine, int card, const CardState& state) {
    if (memory == nullptr) return kInvalidArgument;
    if (memory->version != kMemoryV2Version) return kArgumentVersionMismatch;
    memory->total = state.memory;
    memory->reserved = state.memory - machine.total(card);
    memory->free = machine.free(card);
    memory->used = machine.total(card) - memory->free;
    return kOk;
  });
}

FAKE_NVML int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count,
                                                      ProcessInfo* entries) {
  return list_processes(device, count, entries);
}
FAKE_NVML_ALIAS(nvmlDeviceGetComputeRunningProcesses_v2, nvmlDeviceGetComputeRunningProcesses_v3);

FAKE_NVML int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count,
                                                   ProcessInfoV1* entries) {
  return list_processes(device, count, entries);
}

FAKE_NVML int nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count, void*) {
  return list_nothing(device, count);
}
FAKE_NVML_ALIAS(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlDeviceGetGraphicsRunningProcesses_v3);
FAKE_NVML_ALIAS(nvmlDeviceGetGraphicsRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v3);
FAKE_NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v3,
                nvmlDeviceGetGraphicsRunningProcesses_v3);
FAKE_NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v2,
                nvmlDeviceGetGraphicsRunningProcesses_v3);
FAKE_NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses, nvmlDeviceGetGraphicsRunningProcesses_v3);

// There is no time yet, so that nothing ever computes.
FAKE_NVML int nvmlDeviceGetUtilizationRates(Device device, Utilization* rates) {
  return on_device(device, [&](Machine&, int, const CardState&) {
    *rates = {};
    return kOk;
  });
}

// --- health --------------------------------------------------------------------------------------

FAKE_NVML int nvmlDeviceGetSupportedEventTypes(Device device, unsigned long long* types) {
  return on_device(device, [&](Machine&, int, const CardState&) {
    *types = kEventXid;
    return kOk;
  });
}

FAKE_NVML int nvmlEventSetCreate(EventSet* set) {
  *set = new EventSetHandle;
  return kOk;
}

FAKE_NVML int nvmlEventSetFree(EventSet set) {
  delete set;
  return kOk;
}

// The XIDs of the scenario occur when somebody first waits for them.
FAKE_NVML int nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet set) {
  return on_device(device, [&](Machine&, int, const CardState& card) {
    if (set == nullptr || types != kEventXid) return kInvalidArgument;
    for (int i = 0; i < card.xid_count; ++i) {
      set->waiting.push_back({device, kEventXid, card.xids[i], ~0U, ~0U});
    }
    return kOk;
  });
}

FAKE_NVML int nvmlEventSetWait_v2(EventSet set, Event* event, unsigned timeout_ms) {
  if (set == nullptr || event == nullptr) return kInvalidArgument;
  if (set->waiting.empty()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
    return kTimeout;
  }
  *event = set->waiting.front();
  set->waiting.erase(set->waiting.begin());
  return kOk;
}
// NOLINTEND
