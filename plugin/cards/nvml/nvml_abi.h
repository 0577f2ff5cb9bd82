// The part of NVML's C interface that is used (docs.nvidia.com/deploy/nvml-api). It is declared
// here so that no NVIDIA header is needed to build; nvml_library.h has the functions. Sizes and
// offsets are those of nvml.h, API 13, which are equal on amd64 and arm64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu::plugin::nvml {

struct DeviceHandle;
using Device = DeviceHandle*;
struct EventSetHandle;
using EventSet = EventSetHandle*;

// nvmlReturn_t. NVML may return values that are not listed.
enum Code : int {
  kOk = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kVersionMismatch = 18,
  kArgumentVersionMismatch = 25,
  kUnknown = 999,
};

// nvmlEventType*
inline constexpr std::uint64_t kEventXid = 0x8;
inline constexpr std::uint64_t kEventGpuUnavailable = 0x4000;
inline constexpr std::uint64_t kEventRecoveryAction = 0x8000;

inline constexpr unsigned kEnabled = 1;

// nvmlComputeMode_t
inline constexpr unsigned kComputeModeDefault = 0;
inline constexpr unsigned kComputeModeExclusiveThread = 1;  // not in drivers of today
inline constexpr unsigned kComputeModeProhibited = 2;
inline constexpr unsigned kComputeModeExclusiveProcess = 3;

// NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, and the type of its value.
inline constexpr unsigned kFieldRecoveryAction = 230;
inline constexpr unsigned kValueUnsigned = 1;
// Enough for a UUID, a name or a version.
inline constexpr std::size_t kTextBytes = 96;

struct Memory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;  // including what the driver reserves
};
static_assert(sizeof(Memory) == 24 && offsetof(Memory, used) == 16);

struct MemoryV2 {
  std::uint32_t version;
  std::uint64_t total;
  std::uint64_t reserved;
  std::uint64_t free;
  std::uint64_t used;  // without `reserved`
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, total) == 8);
static_assert(offsetof(MemoryV2, used) == 32);
inline constexpr std::uint32_t kMemoryV2Version = sizeof(MemoryV2) | (2u << 24);

struct Utilization {
  std::uint32_t gpu;
  std::uint32_t memory;
};
static_assert(sizeof(Utilization) == 8);

// An entry of the process lists without a version suffix.
struct ProcessInfoV1 {
  std::uint32_t pid;
  std::uint64_t used;
};
static_assert(sizeof(ProcessInfoV1) == 16 && offsetof(ProcessInfoV1, used) == 8);

// An entry of the process lists with the suffix _v2.
struct ProcessInfo {
  std::uint32_t pid;
  std::uint64_t used;
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24 && offsetof(ProcessInfo, used) == 8);
static_assert(offsetof(ProcessInfo, gpu_instance) == 16);

struct UtilizationSample {
  std::uint32_t pid;
  std::uint64_t time_us;
  std::uint32_t sm;
  std::uint32_t memory;
  std::uint32_t encoder;
  std::uint32_t decoder;
};
static_assert(sizeof(UtilizationSample) == 32 && offsetof(UtilizationSample, time_us) == 8);
static_assert(offsetof(UtilizationSample, sm) == 16);

// The event of nvmlEventSetWait_v2.
struct Event {
  Device device;
  std::uint64_t type;
  std::uint64_t value;  // an XID
  std::uint32_t gpu_instance;
  std::uint32_t compute_instance;
};
static_assert(sizeof(Event) == 32 && offsetof(Event, value) == 16);

// nvmlSetMemoryLimits_v1_t of R615 and later. Amounts are bytes.
struct SetMemoryLimits {
  const char* cgroup;       // nameSpace: the path of the cgroup's folder
  unsigned long long soft;  // guaranteed under memory pressure
  unsigned long long hard;  // the most that can be allocated
};
static_assert(sizeof(SetMemoryLimits) == 24 && offsetof(SetMemoryLimits, hard) == 16);

// nvmlGetMemoryLimits_v1_t of R615 and later.
struct GetMemoryLimits {
  const char* cgroup;
  unsigned long long soft;
  unsigned long long hard;
  unsigned long long used;
};
static_assert(sizeof(GetMemoryLimits) == 32 && offsetof(GetMemoryLimits, used) == 24);

// NVML_DEVICE_MEMORY_LIMIT_MAX, as a hard limit: no limit.
inline constexpr unsigned long long kNoMemoryLimit = ~0ULL;

// nvmlGpuFabricInfo_t; states are nvmlGpuFabricState_t. cuInit fails while the fabric manager has
// not finished.
struct FabricInfo {
  char cluster[16];
  std::int32_t status;  // a Code, where the state is kFabricCompleted
  std::uint32_t partition;
  std::uint8_t state;
};
static_assert(sizeof(FabricInfo) == 28 && offsetof(FabricInfo, state) == 24);
inline constexpr unsigned kFabricInProgress = 2;
inline constexpr unsigned kFabricCompleted = 3;

// nvmlPciInfo_t
struct PciInfo {
  char legacy_bus_id[16];
  std::uint32_t domain;
  std::uint32_t bus;
  std::uint32_t device;
  std::uint32_t device_id;
  std::uint32_t subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

// nvmlGpuTopologyLevel_t; lower levels are PCIe bridges below one host bridge.
inline constexpr int kTopologyHostBridge = 30;
inline constexpr int kTopologySystem = 50;
// NVML_NVLINK_MAX_LINKS, which was 4, 6, 12 and is 18.
inline constexpr unsigned kNvlinkSlotsMax = 36;
// nvmlIntNvLinkDeviceType_t
inline constexpr int kNvlinkToCard = 0;
inline constexpr int kNvlinkToSwitch = 2;
inline constexpr int kNvlinkToUnknown = 255;

// nvmlConfComputeSystemState_t
struct ConfidentialState {
  std::uint32_t environment;
  std::uint32_t feature;  // kEnabled
  std::uint32_t dev_tools;
};
static_assert(sizeof(ConfidentialState) == 12);

union Value {
  double real;
  std::uint32_t whole;
  std::uint64_t large;
};

struct FieldValue {
  std::uint32_t field;
  std::uint32_t scope;
  std::int64_t timestamp;
  std::int64_t latency;
  std::uint32_t type;
  std::int32_t code;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, type) == 24);
static_assert(offsetof(FieldValue, value) == 32);

}  // namespace mgpu::plugin::nvml
