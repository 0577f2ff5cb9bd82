// What no call of the driver shows: modules with their variables, streams, what a launch takes.
// NVML lists the memory of each process, in a container by the IDs of its PID namespace (seen with
// driver 580.159.04); what it lists and is not counted is counted here. Where it does not list this
// process, nothing is.
//
// Other containers do not matter for this, unlike for the free memory of the card.
#include <time.h>
#include <unistd.h>

#include <cstring>

#include "plugin/share/memory.h"
#include "plugin/share/old_libdl.h"
#include "plugin/share/table.h"

// The library in the place of NVML, where the plugin mounts it in containers. It has the functions
// of the driver's own. If that were loaded here, before this one, a program that asks for NVML by
// its name would get it, and see the whole card.
#ifndef MGPU_SHARE_NVML
#define MGPU_SHARE_NVML "/usr/lib/mgpu/libmgpu-nvml.so"
#endif

namespace mgpu::share {
namespace {

struct ListedProcess {
  unsigned pid;
  std::uint64_t bytes;
  unsigned instance;
  unsigned compute_instance;
};
constexpr unsigned kListedMax = 512;
constexpr std::int64_t kInterval = 10'000'000;  // ns: NVML takes 16 us

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
Handle devices[kCardsMax];  // of NVML; null: it is not asked
std::uint64_t uncounted[kCardsMax];
std::atomic<std::int64_t> hidden[kCardsMax];
unsigned cores[kCardsMax];
std::atomic<std::int64_t> last_time = 0;
Result (*list)(Handle device, unsigned* count, ListedProcess* processes) = nullptr;

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

// What NVML lists for this process. 0: it is not there. Or kUnknown.
std::uint64_t listed(unsigned card) {
  static ListedProcess processes[kListedMax];
  unsigned count = kListedMax;
  if (devices[card] == nullptr) return kUnknown;
  if (list(devices[card], &count, processes) != kSuccess) return kUnknown;
  const auto own = static_cast<unsigned>(getpid());
  for (unsigned i = 0; i < count && i < kListedMax; ++i) {
    const std::uint64_t bytes = processes[i].bytes;
    if (processes[i].pid == own) return bytes < kUnitsMax * kUnit ? bytes : kUnknown;
  }
  return 0;
}

template <class Function>
Function function(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Counts it if it fits, or in any case.
bool count(unsigned card, bool in_any_case) {
  Account& account = card_at(card).account;
  const Lock lock(mutex);
  const std::uint64_t before = account.own_bytes();
  std::uint64_t shown = listed(card);
  if (shown == kUnknown) return true;
  if (shown > 0) shown += static_cast<std::uint64_t>(hidden[card]);
  // The larger one, because its other threads may allocate or free meanwhile.
  const std::uint64_t after = account.own_bytes();
  const std::uint64_t counted = (before > after ? before : after) - uncounted[card];
  const std::uint64_t wanted = shown > counted ? shown - counted : 0;
  if (wanted <= uncounted[card]) {
    account.give_back(uncounted[card] - wanted);
  } else if (!account.reserve(wanted - uncounted[card])) {
    if (!in_any_case) return false;
    account.charge(wanted - uncounted[card]);
  }
  uncounted[card] = wanted;
  return true;
}

}  // namespace

// A process that is listed before it uses the card is another one, of an older driver that lists
// the IDs of the node.
void find_in_nvml(unsigned card, const char (&uuid)[41]) {
  static Result (*find)(const char*, Handle*) = nullptr;
  static Result (*count_cores)(Handle, unsigned*) = nullptr;
  const Lock lock(mutex);
  if (list == nullptr) {
    void* const library = dlopen(MGPU_SHARE_NVML, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto initialize = function<Result (*)()>(library, "nvmlInit_v2");
    find = function<decltype(find)>(library, "nvmlDeviceGetHandleByUUID");
    if (initialize == nullptr || find == nullptr || initialize() != kSuccess) return;
    list = function<decltype(list)>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    count_cores = function<decltype(count_cores)>(library, "nvmlDeviceGetNumGpuCores");
  }
  uncounted[card] = 0;
  hidden[card] = 0;
  cores[card] = 0;
  // CUDA returns the UUID of a MIG device without the "MIG-" by which NVML finds it.
  char instance[41] = "MIG-";
  std::memcpy(instance + 4, uuid + 4, sizeof(instance) - 4);
  const bool whole = find != nullptr && find(uuid, &devices[card]) == kSuccess;
  if (whole && count_cores != nullptr && count_cores(devices[card], &cores[card]) != kSuccess) {
    cores[card] = 0;
  }
  const bool found = list != nullptr && (whole || find(instance, &devices[card]) == kSuccess);
  if (!found || listed(card) != 0) {
    devices[card] = nullptr;
  }
}

unsigned cores_of(const Card& card) {
  return cores[index_of(card)];
}

void add_hidden(unsigned card, std::int64_t bytes) {
  hidden[card] += bytes;
}

void leave_to_nvml(const Card& card, std::uint64_t bytes) {
  const Lock lock(mutex);
  uncounted[index_of(card)] += bytes;
  count(index_of(card), true);
}

bool count_uncounted(bool in_any_case) {
  Card* const card = cards_attached() ? current_card() : nullptr;
  if (card == nullptr || count(index_of(*card), false)) return true;
  trim_unused_pools(*card);
  return count(index_of(*card), in_any_case);
}

void count_uncounted_at_intervals(const Card& card) {
  const std::int64_t time = now();
  if (time - last_time.load(std::memory_order_relaxed) < kInterval) return;
  last_time = time;
  count(index_of(card), true);
}

}  // namespace mgpu::share
