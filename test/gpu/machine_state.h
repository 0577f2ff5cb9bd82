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

// Virtual time in which a card, or a process on it, had kernels that ran.
struct BusyState {
  Word all;      // nanoseconds
  Word before;   // of these, before the sample that is taken now
  Word percent;  // of the last whole sample
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
  // In virtual time: the process whose kernels run, or kProcessesMax for all clients of MPS, and
  // when that ends if others have kernels.
  Word turn;
  Word turn_ends;
  BusyState busy[2];  // MachineState::step says which one counts
};

// A kernel that has begun in virtual time.
struct KernelState {
  Word began;  // nanoseconds
  Word order;  // of those of its process that began then
  Word card;
  Word width;    // of the card, of kWholeWidth
  Word left[2];  // nanoseconds with that width; MachineState::step says which one counts
};

// Memory of one process, for each card.
struct ProcessState {
  Word used;  // 1 while a process has this slot
  Word pid;   // for people, NVML's lists and limits of cgroups only
  Word is_mps_client;
  Word has_work;  // of a client of MPS: kernels that it has not waited for
  // In virtual time: whether the clock waits for it, how many of its threads wait, and until when
  // at most.
  Word uses_time;
  Word waiting;
  Word wakes_at;
  std::atomic<std::uint32_t> wake;  // changes when one is to go on
  Word width;                       // that all of its kernels may use together
  Word running;                     // a bit for each of them
  KernelState kernels[kRunningMax];
  Word charged[kDevicesMax];  // what NVML's process list shows
  Word hidden[kDevicesMax];   // what it does not show
  BusyState busy[kDevicesMax][2];
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

inline constexpr char kMagic[16] = "mgpu machine 07";

struct MachineState {
  char magic[16];
  std::uint64_t size;  // of this struct
  char driver_release[32];
  std::int32_t cuda_version;  // 13000 is CUDA 13.0
  std::int32_t device_count;
  // Whether time is virtual. It begins when so many processes use it.
  std::int32_t is_virtual;
  std::uint32_t processes_at_begin;
  Word has_begun;
  Word step;      // its last bit says which of two values counts, so that they change together
  Word clock[2];  // nanoseconds
  Word last_order;
  Word last_id;
  // One more than the last one that was ever used.
  std::atomic<int> processes_end;
  std::atomic<int> shared_end;
  Word broken_clients;           // clients of MPS that have ended with work
  CardState cards[kDevicesMax];  // before MIG devices
  ProcessState processes[kProcessesMax];
  SharedState shared[kSharedMax];
};

}  // namespace mgpu::fake_gpu
