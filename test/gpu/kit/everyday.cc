// What programs do every day: it works in a share as on a card of its size.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <thread>
#include <vector>

#include "test/gpu/kit/program.h"

namespace mgpu::fake_gpu::kit {
namespace {

using std::size_t;
using std::uint64_t;

void total_is_the_share() {
  start();
  size_t free = 0;
  size_t total = 0;
  NEED(call("cuMemGetInfo_v2", &free, &total) == kSuccess);
  NEED(total == limit && free <= limit - 500 * kMiB && free >= limit - 600 * kMiB);
  NEED(call("cuDeviceTotalMem_v2", &total, 0) == kSuccess);
  NEED(total == limit);
}

void free_follows() {
  start();
  const uint64_t before = free_now();
  Pointer at = 0;
  NEED(linear(kPiece, &at) == kSuccess);
  NEED(free_now() == before - kPiece);
  NEED(call("cuMemFree_v2", at) == kSuccess);
  NEED(free_now() == before);
}

void freed_memory_is_free() {
  start();
  const uint64_t most = free_now() / (2 * kMiB) * 2 * kMiB;
  for (int i = 0; i < 100; ++i) {
    Pointer at = 0;
    NEED(linear(most, &at) == kSuccess);
    NEED(call("cuMemFree_v2", at) == kSuccess);
  }
}

void the_whole_share_can_be_had() {
  start();
  const uint64_t before = free_now();
  uint64_t taken = 0;
  while (linear(2 * kMiB) == kSuccess) taken += 2 * kMiB;
  NEED(taken <= before && before - taken <= 8 * kMiB);
}

void refusal_is_out_of_memory() {
  start();
  Pointer at = 0;
  size_t pitch = 0;
  const Properties wanted;
  const auto most = static_cast<size_t>(limit);
  NEED(linear(limit, &at) == kOutOfMemory);
  NEED(call("cuMemAllocPitch_v2", &at, &pitch, most / 1024, size_t{1024}, 4U) == kOutOfMemory);
  NEED(call("cuMemAllocAsync", &at, most, Handle{}) == kOutOfMemory);
  NEED(call("cuMemCreate", &at, most, &wanted, uint64_t{0}) == kOutOfMemory);
  NEED(linear(kPiece) == kSuccess);
}

void errors_are_those_of_the_driver() {
  start();
  Pointer at = 0;
  NEED(linear(0, &at) == kInvalidValue);
  NEED(call("cuMemAlloc_v2", static_cast<Pointer*>(nullptr), size_t{4096}) == kInvalidValue);
  NEED(call("cuMemFree_v2", Pointer{12345}) == kInvalidValue);
  NEED(call("cuMemFree_v2", Pointer{0}) == kSuccess);
  NEED(call("cuMemRelease", Pointer{12345}) == kInvalidValue);
}

void other_card_is_unaffected() {
  start();
  fill();
  Handle context = nullptr;
  NEED(call("cuCtxCreate_v2", &context, 0U, 1) == kSuccess);
  NEED(free_now() >= limit - 600 * kMiB);
  NEED(linear(limit / 2) == kSuccess);
}

void memory_of_the_host_is_free() {
  start();
  const uint64_t before = free_now();
  void* memory = nullptr;
  for (int i = 0; i < 4; ++i) NEED(call("cuMemHostAlloc", &memory, size_t{limit}, 0U) == kSuccess);
  NEED(call("cuMemAllocHost_v2", &memory, size_t{4096}) == kSuccess);
  NEED(call("cuMemFreeHost", memory) == kSuccess);
  NEED(free_now() == before);
}

void addresses_are_free() {
  start();
  const uint64_t before = free_now();
  Pointer at = 0;
  for (int i = 0; i < 8; ++i) {
    NEED(call("cuMemAddressReserve", &at, size_t{limit}, size_t{0}, Pointer{0}, uint64_t{0}) ==
         kSuccess);
  }
  NEED(free_now() == before);
  NEED(call("cuMemAddressFree", at, size_t{limit}) == kSuccess);
}

void pools_and_linear_in_turn() {
  start();
  const uint64_t most = free_now() / 4 * 3 / kPiece * kPiece;
  for (int i = 0; i < 20; ++i) {
    Pointer at = 0;
    NEED(call("cuMemAllocAsync", &at, size_t{most}, Handle{}) == kSuccess);
    NEED(call("cuMemFreeAsync", at, Handle{}) == kSuccess);
    NEED(call("cuCtxSynchronize") == kSuccess);
    NEED(linear(most, &at) == kSuccess);
    NEED(call("cuMemFree_v2", at) == kSuccess);
  }
}

void pooled_memory_is_used_again_at_once() {
  start();
  const uint64_t most = free_now() / 4 * 3 / kPiece * kPiece;
  for (int i = 0; i < 20; ++i) {
    Pointer at = 0;
    NEED(call("cuMemAllocAsync", &at, size_t{most}, Handle{}) == kSuccess);
    NEED(call("cuMemFreeAsync", at, Handle{}) == kSuccess);
  }
}

void trimmed_pools_are_free() {
  start();
  const uint64_t before = free_now();
  Handle pool = nullptr;
  Pointer at = 0;
  const Properties wanted;
  uint64_t all = ~uint64_t{0};
  NEED(call("cuMemPoolCreate", &pool, &wanted) == kSuccess);
  NEED(call("cuMemPoolSetAttribute", pool, 4, &all) == kSuccess);
  NEED(call("cuMemAllocFromPoolAsync", &at, size_t{512 * kMiB}, pool, Handle{}) == kSuccess);
  NEED(call("cuMemFreeAsync", at, Handle{}) == kSuccess);
  NEED(call("cuCtxSynchronize") == kSuccess);
  NEED(free_now() == before - 512 * kMiB);
  NEED(call("cuMemPoolTrimTo", pool, size_t{0}) == kSuccess);
  NEED(free_now() == before);
  NEED(call("cuMemPoolDestroy", pool) == kSuccess);
}

void linear_memory_freed_in_order() {
  start();
  const uint64_t most = free_now() / 4 * 3 / kPiece * kPiece;
  for (int i = 0; i < 20; ++i) {
    Pointer at = 0;
    NEED(linear(most, &at) == kSuccess);
    NEED(call("cuMemFreeAsync", at, Handle{}) == kSuccess);
    NEED(call("cuCtxSynchronize") == kSuccess);
  }
}

void graphs_run_again() {
  start();
  const uint64_t before = free_now();
  Handle stream = nullptr;
  Handle graph = nullptr;
  Handle exec = nullptr;
  Pointer at = 0;
  NEED(call("cuStreamCreate", &stream, 1U) == kSuccess);
  NEED(call("cuStreamBeginCapture_v2", stream, 2) == kSuccess);
  NEED(call("cuMemAllocAsync", &at, size_t{512 * kMiB}, stream) == kSuccess);
  NEED(call("cuMemFreeAsync", at, stream) == kSuccess);
  NEED(call("cuStreamEndCapture", stream, &graph) == kSuccess);
  NEED(call("cuGraphInstantiateWithFlags", &exec, graph, uint64_t{0}) == kSuccess);
  NEED(free_now() + kPiece > before);  // a capture takes nothing
  for (int i = 0; i < 100; ++i) NEED(call("cuGraphLaunch", exec, Handle{}) == kSuccess);
  NEED(free_now() >= before - 600 * kMiB);
  NEED(call("cuGraphExecDestroy", exec) == kSuccess);
  NEED(call("cuDeviceGraphMemTrim", 0) == kSuccess);
  NEED(free_now() + kPiece > before);
}

void virtual_memory_returns() {
  start();
  const uint64_t before = free_now();
  const Properties wanted;
  for (int i = 0; i < 20; ++i) {
    Pointer handle = 0;
    Pointer at = 0;
    NEED(call("cuMemCreate", &handle, size_t{512 * kMiB}, &wanted, uint64_t{0}) == kSuccess);
    NEED(call("cuMemAddressReserve", &at, size_t{512 * kMiB}, size_t{0}, Pointer{0}, uint64_t{0}) ==
         kSuccess);
    NEED(call("cuMemMap", at, size_t{512 * kMiB}, size_t{0}, handle, uint64_t{0}) == kSuccess);
    NEED(call("cuMemRelease", handle) == kSuccess);
    NEED(call("cuMemUnmap", at, size_t{512 * kMiB}) == kSuccess);
    NEED(call("cuMemAddressFree", at, size_t{512 * kMiB}) == kSuccess);
    NEED(free_now() == before);
  }
}

void arrays_return() {
  start();
  const uint64_t before = free_now();
  const Shape shape{4096, 4096, 0, 0x20, 1, 0};
  for (int i = 0; i < 100; ++i) {
    Handle array = nullptr;
    NEED(call("cuArray3DCreate_v2", &array, &shape) == kSuccess);
    NEED(call("cuArrayDestroy", array) == kSuccess);
  }
  NEED(free_now() == before);
}

void contexts_return() {
  start();
  const uint64_t before = free_now();
  for (int i = 0; i < 20; ++i) {
    Handle context = nullptr;
    NEED(call("cuCtxCreate_v2", &context, 0U, 0) == kSuccess);
    NEED(linear(256 * kMiB) == kSuccess);
    NEED(call("cuCtxDestroy_v2", context) == kSuccess);
  }
  Handle primary = nullptr;
  NEED(call("cuDevicePrimaryCtxRetain", &primary, 0) == kSuccess);
  NEED(call("cuCtxSetCurrent", primary) == kSuccess);
  NEED(free_now() == before);
}

void other_programs_are_seen() {
  start();
  const uint64_t before = free_now();
  const pid_t other = holder(256);
  NEED(free_now() <= before - 750 * kMiB && free_now() >= before - 850 * kMiB);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  NEED(linear(before - 2 * kMiB) == kSuccess);
}

void ended_programs_return_all() {
  start();
  const uint64_t before = free_now();
  for (int i = 0; i < 20; ++i) {
    const pid_t other = holder(512);
    ::kill(other, i % 2 == 0 ? SIGKILL : SIGTERM);
    ::waitpid(other, nullptr, 0);
  }
  NEED(linear(before - 2 * kMiB) == kSuccess);
}

void kills_while_allocating_lose_nothing() {
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      start();
      for (;;) {
        Pointer at = 0;
        if (linear(limit / 4, &at) == kSuccess) call("cuMemFree_v2", at);
      }
    }
    ::usleep(static_cast<unsigned>(2000 + 1900 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  start();
  NEED(linear(limit - 600 * kMiB) == kSuccess);
}

void executed_programs_have_all() {
  start();
  if (std::getenv("MGPU_KIT_AGAIN") != nullptr) {
    NEED(linear(limit - 600 * kMiB) == kSuccess);
    return;
  }
  NEED(linear(limit - 600 * kMiB) == kSuccess);
  ::setenv("MGPU_KIT_AGAIN", "1", 1);
  ::execl("/proc/self/exe", "kit_program", __func__, nullptr);
}

void data_is_kept() {
  start();
  std::vector<char> out(kMiB);
  std::vector<char> back(kMiB);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(i * 7);
  Pointer at = 0;
  NEED(linear(kMiB, &at) == kSuccess);
  const void* const from = out.data();
  void* const to = back.data();
  NEED(call("cuMemcpyHtoD_v2", at, from, out.size()) == kSuccess);
  NEED(call("cuMemcpyDtoH_v2", to, at, out.size()) == kSuccess);
  NEED(out == back);
}

void kernels_are_launched() {
  start();
  const uint64_t before = free_now();
  Handle module = nullptr;
  Handle function = nullptr;
  Pointer at = 0;
  size_t bytes = 0;
  NEED(call("cuModuleLoadData", &module,
            ".version 7.0\n.visible .global .align 4 .b8 g[4096];\n.visible .entry k() { ret; }") ==
       kSuccess);
  NEED(call("cuModuleGetFunction", &function, module, "k") == kSuccess);
  NEED(call("cuModuleGetGlobal_v2", &at, &bytes, module, "g") == kSuccess);
  NEED(bytes == 4096);
  for (int i = 0; i < 100; ++i) {
    NEED(call("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, Handle{}, Handle{},
              Handle{}) == kSuccess);
  }
  NEED(call("cuCtxSynchronize") == kSuccess);
  NEED(call("cuModuleUnload", module) == kSuccess);
  NEED(free_now() == before);
}

void cards_are_those_of_the_machine() {
  start();
  int value = 0;
  char name[64] = "";
  NEED(call("cuDeviceGetCount", &value) == kSuccess);
  NEED(value == 2);
  NEED(call("cuDeviceGetName", &name[0], 64, 0) == kSuccess);
  NEED(name[0] != '\0');
  NEED(call("cuDriverGetVersion", &value) == kSuccess);
  NEED(value >= 11000);
}

void unknown_names_are_not_found() {
  start();
  void* found = nullptr;
  int status = 0;
  NEED(call("cuGetProcAddress_v2", "cuNoSuchFunction", &found, 12000, uint64_t{0}, &status) ==
       kSuccess);
  NEED(found == nullptr && status == 1);
  NEED(::dlsym(library, "cuNoSuchFunction") == nullptr);
}

void harmless_names_are_found() {
  start();
  void* found = nullptr;
  int status = 0;
  for (const char* const name : {"cuDeviceGetName", "cuEventCreate", "cuMemcpy", "cuStreamQuery",
                                 "cuMemAlloc", "cuMemFree", "cuGraphLaunch", "cuLaunchKernel"}) {
    for (const uint64_t flags : {0U, 1U, 2U}) {
      NEED(call("cuGetProcAddress_v2", name, &found, 12000, flags, &status) == kSuccess);
      NEED(found != nullptr && status == 0);
    }
  }
}

void a_fork_has_no_driver() {
  start();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = call("cuInit", 0U) == kNotInitialized && linear(kMiB) == kNotInitialized;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  NEED(status == 0);
  NEED(linear(kPiece) == kSuccess);
}

void threads_free_for_each_other() {
  start();
  const uint64_t before = free_now();
  Handle context = nullptr;
  NEED(call("cuCtxGetCurrent", &context) == kSuccess);
  std::vector<Pointer> taken(200);
  for (Pointer& at : taken) NEED(linear(4 * kMiB, &at) == kSuccess);
  std::thread([&] {
    NEED(call("cuCtxSetCurrent", context) == kSuccess);
    for (const Pointer at : taken) NEED(call("cuMemFree_v2", at) == kSuccess);
  }).join();
  NEED(free_now() == before);
}

void streams_and_events() {
  start();
  Handle stream = nullptr;
  Handle event = nullptr;
  for (int i = 0; i < 100; ++i) {
    NEED(call("cuStreamCreate", &stream, 1U) == kSuccess);
    NEED(call("cuEventCreate", &event, 0U) == kSuccess);
    NEED(call("cuEventRecord", event, stream) == kSuccess);
    NEED(call("cuEventSynchronize", event) == kSuccess);
    NEED(call("cuEventDestroy_v2", event) == kSuccess);
    NEED(call("cuStreamDestroy_v2", stream) == kSuccess);
  }
  NEED(linear(free_now() / kPiece * kPiece) == kSuccess);
}

void managed_memory_is_used() {
  start();
  Pointer at = 0;
  NEED(call("cuMemAllocManaged", &at, size_t{512 * kMiB}, 1U) == kSuccess);
  std::memset(reinterpret_cast<void*>(at), 1, 4096);
  NEED(call("cuMemPrefetchAsync", at, size_t{512 * kMiB}, 0, Handle{}) == kSuccess);
  NEED(call("cuCtxSynchronize") == kSuccess);
  NEED(call("cuMemFree_v2", at) == kSuccess);
}

}  // namespace

const Case kEverydays[] = {
    {"total_is_the_share", "cuMemGetInfo and cuDeviceTotalMem tell of the share",
     total_is_the_share},
    {"free_follows", "free memory falls by what is allocated and rises by what is freed",
     free_follows},
    {"freed_memory_is_free", "all of the share can be had a hundred times", freed_memory_is_free},
    {"the_whole_share_can_be_had", "nothing is refused before the share is full",
     the_whole_share_can_be_had},
    {"refusal_is_out_of_memory", "what does not fit is refused with CUDA_ERROR_OUT_OF_MEMORY",
     refusal_is_out_of_memory},
    {"errors_are_those_of_the_driver", "wrong values get the errors of the driver",
     errors_are_those_of_the_driver},
    {"other_card_is_unaffected", "a full card leaves the other one whole",
     other_card_is_unaffected},
    {"memory_of_the_host_is_free", "memory of the host does not count", memory_of_the_host_is_free},
    {"addresses_are_free", "reserved addresses do not count", addresses_are_free},
    {"pools_and_linear_in_turn", "what a pool has unused can be had otherwise",
     pools_and_linear_in_turn},
    {"pooled_memory_is_used_again_at_once",
     "a pool uses again what was freed, before anything is synchronized",
     pooled_memory_is_used_again_at_once},
    {"trimmed_pools_are_free", "a pool that is trimmed gives back what it kept",
     trimmed_pools_are_free},
    {"linear_memory_freed_in_order", "cuMemFreeAsync gives back what cuMemAlloc took",
     linear_memory_freed_in_order},
    {"graphs_run_again", "graphs that allocate run again and again, and are trimmed",
     graphs_run_again},
    {"virtual_memory_returns", "virtual memory is free when the last mapping ends",
     virtual_memory_returns},
    {"arrays_return", "arrays are free when they are destroyed", arrays_return},
    {"contexts_return", "contexts are free with all their memory", contexts_return},
    {"other_programs_are_seen", "free memory falls by what other programs of the share take",
     other_programs_are_seen},
    {"ended_programs_return_all", "programs give back all when they end or are killed",
     ended_programs_return_all},
    {"kills_while_allocating_lose_nothing", "programs that are killed within a call leave nothing",
     kills_while_allocating_lose_nothing},
    {"executed_programs_have_all", "exec gives back all", executed_programs_have_all},
    {"data_is_kept", "data is the same after it was on the card", data_is_kept},
    {"kernels_are_launched", "modules are loaded and kernels launched", kernels_are_launched},
    {"cards_are_those_of_the_machine", "number, name and version are those of the machine",
     cards_are_those_of_the_machine},
    {"unknown_names_are_not_found", "cuGetProcAddress and dlsym do not find what is not there",
     unknown_names_are_not_found},
    {"harmless_names_are_found", "cuGetProcAddress finds functions for all kinds of streams",
     harmless_names_are_found},
    {"a_fork_has_no_driver", "a forked child is refused, and its parent goes on",
     a_fork_has_no_driver},
    {"threads_free_for_each_other", "a thread frees what another one has allocated",
     threads_free_for_each_other},
    {"streams_and_events", "streams and events are made and destroyed", streams_and_events},
    {"managed_memory_is_used", "managed memory is written, prefetched and freed",
     managed_memory_is_used},
};
const int kEverydayCount = static_cast<int>(std::size(kEverydays));

}  // namespace mgpu::fake_gpu::kit
