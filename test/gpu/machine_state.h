// The contents of the file that is a machine, as all its processes map it. All of it is plain data
// without pointers. What a process holds is in its own ProcessState, or in a SharedState that names
// it, and each number is written by one store: a process that ends between two stores leaves
// nothing that others would have to repair.
#pragma once

#include <atomic>
#include <cstdint>

#include "test/gpu/limits.h"

namespace mgpu::fake_gpu {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// As the documents of NVML and its functions tell of it.
struct HealthState {
  Word lost;             // it fell off the bus
  Word recovery_action;  // NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
  Word remap_failed;     // rows of its memory
  Word fabric_state;     // nvmlGpuFabricInfo_t
  Word fabric_status;
};

// "NV18", "NV18s", "PIX"
struct LinkText {
  char text[8];
};

// A card, or a MIG device of one.
struct CardState {
  char uuid[64];
  char model[96];
  std::uint64_t memory;           // what NVML calls the total
  std::uint64_t reserved;         // of it, what programs never see
  std::uint64_t idle;             // in use by the driver while no process uses the card
  std::uint64_t context_charged;  // of a context, as NVML's process list shows it
  std::uint64_t context_hidden;   // what a context takes beyond that
  std::int32_t multiprocessors;
  std::int32_t compute_major;
  std::int32_t compute_minor;
  std::int32_t pci_bus;
  std::int32_t is_mig;
  std::int32_t parent;  // of a MIG device; -1 for a card
  std::int32_t gpu_instance;
  std::int32_t compute_instance;
  LinkText links[kCardsMax];  // to each card; empty: not known
  HealthState health;
  std::int32_t xid_count;  // at the beginning
  std::uint32_t xids[kXidsMax];
  Word sent_count;           // later
  Word sent_xids[kXidsMax];  // of these, the last ones
  Word busy_until;           // with kernels that were launched; nanoseconds of the monotonic clock
};

// Memory of one process, for each card.
struct ProcessState {
  Word used;  // 1 while a process has this slot
  Word pid;   // for people, NVML's lists and limits of cgroups only
  Word is_mps_client;
  Word has_work;              // of a client of MPS: kernels that it has not waited for
  Word charged[kDevicesMax];  // what NVML's process list shows
  Word hidden[kDevicesMax];   // what it does not show
};

// Memory that several processes may hold. It is freed with its last holder.
struct SharedState {
  Word used;
  Word id;  // never the same again
  Word card;
  Word bytes;
  Word owner;  // the slot of the process that has allocated it, while it holds it
  Word holders[kProcessesMax / 64];
};

inline constexpr char kMagic[16] = "mgpu machine 05";

struct MachineState {
  char magic[16];
  std::uint64_t size;  // of this struct
  char driver_release[32];
  std::int32_t cuda_version;  // 13000 is CUDA 13.0
  std::int32_t device_count;
  Word last_id;
  Word broken_clients;           // clients of MPS that have ended with work
  CardState cards[kDevicesMax];  // before MIG devices
  ProcessState processes[kProcessesMax];
  SharedState shared[kSharedMax];
};

}  // namespace mgpu::fake_gpu
