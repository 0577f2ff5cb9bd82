// A program in a share of a card that allocates and frees at random in all ways that the fake
// driver has: share_history_client SEED STEPS HISTORIES. After each step it asks the machine what
// the card shows, which is what all programs of the share have, and ends with 1 if that is over
// MGPU_LIMIT_MIB. After each history it frees all and adds 1 to the file MGPU_HISTORIES, but after
// the last one it frees nothing: its end does.
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "test/gpu/cuda_program.h"
#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;

std::mt19937_64 choices;

std::uint64_t below(std::uint64_t end) {
  return choices() % end;
}

std::uint64_t some_bytes() {
  const std::uint64_t most[] = {4096, 700'000, 3 * kMiB, 40 * kMiB, 300 * kMiB, 900 * kMiB};
  return 1 + below(most[below(6)]);
}

// True if it was granted; nothing else than the end of memory may refuse it.
bool granted(int code) {
  if (code != kOutOfMemory) must(code);
  return code == kSuccess;
}

using Free = std::function<void()>;
std::vector<Free> held;

void linear() {
  Pointer at = 0;
  std::size_t pitch = 0;
  const bool wide = below(4) == 0;
  const int code = wide ? call("cuMemAllocPitch_v2", &at, &pitch, std::size_t{1000},
                               static_cast<std::size_t>(1 + below(100'000)), 4U)
                        : call("cuMemAlloc_v2", &at, static_cast<std::size_t>(some_bytes()));
  if (!granted(code)) return;
  const bool in_order = below(4) == 0;
  held.emplace_back(
      [=] { must(in_order ? call("cuMemFreeAsync", at, Handle{}) : call("cuMemFree_v2", at)); });
}

void managed() {
  Pointer at = 0;
  const auto bytes = static_cast<std::size_t>(some_bytes());
  if (!granted(call("cuMemAllocManaged", &at, bytes, 1U))) return;
  // One byte moves all of it to the card; to write more takes most of the time of a history.
  must(call("cuMemsetD8_v2", at, 1, std::size_t{1}));
  held.emplace_back([=] { must(call("cuMemFree_v2", at)); });
}

void pooled() {
  Pointer at = 0;
  if (!granted(call("cuMemAllocAsync", &at, static_cast<std::size_t>(some_bytes()), Handle{})))
    return;
  held.emplace_back([=] { must(call("cuMemFreeAsync", at, Handle{})); });
}

void explicit_pool() {
  Handle pool = nullptr;
  Pointer at = 0;
  Properties properties;
  must(call("cuMemPoolCreate", &pool, &properties));
  if (!granted(call("cuMemAllocFromPoolAsync", &at, static_cast<std::size_t>(some_bytes()), pool,
                    Handle{}))) {
    must(call("cuMemPoolDestroy", pool));
    return;
  }
  held.emplace_back([=] {
    must(call("cuMemFreeAsync", at, Handle{}));
    must(call("cuMemPoolDestroy", pool));
  });
}

void array() {
  struct {
    std::size_t width, height, depth;
    int format = 0x20;
    unsigned channels = 1;
    unsigned flags = 0;
  } shape{1 + below(4000), below(4000), below(4), 0x20, 1, 0};
  Handle made = nullptr;
  const bool levels = below(3) == 0;
  const int code = levels ? call("cuMipmappedArrayCreate", &made, &shape, 4U)
                          : call("cuArray3DCreate_v2", &made, &shape);
  if (!granted(code)) return;
  held.emplace_back(
      [=] { must(call(levels ? "cuMipmappedArrayDestroy" : "cuArrayDestroy", made)); });
}

void physical() {
  std::uint64_t handle = 0;
  Pointer at = 0;
  const std::size_t bytes = (1 + below(200)) * 2 * kMiB;
  Properties properties;
  if (!granted(call("cuMemCreate", &handle, bytes, &properties, std::uint64_t{0}))) return;
  if (below(3) == 0) {
    held.emplace_back([=] { must(call("cuMemRelease", handle)); });
    return;
  }
  must(call("cuMemAddressReserve", &at, bytes, std::size_t{0}, Pointer{0}, std::uint64_t{0}));
  if (!granted(call("cuMemMap", at, bytes, std::size_t{0}, handle, std::uint64_t{0}))) std::exit(1);
  must(call("cuMemRelease", handle));
  held.emplace_back([=] {
    must(call("cuMemUnmap", at, bytes));
    must(call("cuMemAddressFree", at, bytes));
  });
}

void graph() {
  Handle stream = nullptr, made = nullptr, exec = nullptr;
  Pointer at = 0;
  if (!granted(call("cuStreamCreate", &stream, 1U))) return;
  must(call("cuStreamBeginCapture_v2", stream, 2));
  must(call("cuMemAllocAsync", &at, static_cast<std::size_t>(some_bytes()), stream));
  must(call("cuMemFreeAsync", at, stream));
  must(call("cuStreamEndCapture", stream, &made));
  must(call("cuGraphInstantiateWithFlags", &exec, made, std::uint64_t{0}));
  granted(call("cuGraphLaunch", exec, Handle{}));
  must(call("cuStreamDestroy_v2", stream));
  held.emplace_back([=] {
    must(call("cuGraphExecDestroy", exec));
    must(call("cuGraphDestroy", made));
    if (below(2) == 0) must(call("cuDeviceGraphMemTrim", 0));
  });
}

void context() {
  Handle made = nullptr, before = nullptr;
  must(call("cuCtxGetCurrent", &before));
  if (!granted(call("cuCtxCreate_v2", &made, 0U, 0))) return;
  must(call("cuCtxSetCurrent", before));
  held.emplace_back([=] { must(call("cuCtxDestroy_v2", made)); });
}

void stream() {
  Handle made = nullptr;
  if (!granted(call("cuStreamCreate", &made, 0U))) return;
  held.emplace_back([=] { must(call("cuStreamDestroy_v2", made)); });
}

void release() {
  if (held.empty()) return;
  const std::size_t which = below(held.size());
  std::swap(held[which], held.back());
  const Free free = std::move(held.back());
  held.pop_back();
  free();
}

void settle() {
  must(call("cuCtxSynchronize"));
}

struct Step {
  const char* name;
  unsigned weight;
  void (*run)();
};
const Step kSteps[] = {{"linear", 8, linear},   {"managed", 2, managed},
                       {"pooled", 5, pooled},   {"explicit_pool", 3, explicit_pool},
                       {"array", 3, array},     {"physical", 4, physical},
                       {"graph", 2, graph},     {"context", 1, context},
                       {"stream", 1, stream},   {"settle", 3, settle},
                       {"release", 20, release}};

const Step& choose() {
  unsigned all = 0;
  for (const Step& one : kSteps) all += one.weight;
  auto at = static_cast<unsigned>(below(all));
  for (const Step& one : kSteps) {
    if (at < one.weight) return one;
    at -= one.weight;
  }
  return kSteps[0];
}

// The number of histories that all programs have finished.
std::atomic<std::uint64_t>* finished() {
  const int file = ::open(std::getenv("MGPU_HISTORIES"), O_RDWR | O_CLOEXEC);
  void* const mapped =
      ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return mapped != MAP_FAILED ? static_cast<std::atomic<std::uint64_t>*>(mapped) : nullptr;
}

// False: the card has shown more than the limit.
bool run_history(Machine& machine, std::uint64_t limit, std::uint64_t seed, long steps) {
  choices.seed(seed);
  for (long i = 0; i < steps; ++i) {
    const Step& one = choose();
    one.run();
    const std::uint64_t total = machine.total(0);
    const std::uint64_t used = total - machine.free(0, total - limit);
    if (used <= limit) continue;
    std::printf("seed %llu, step %ld: after %s the card shows %.2f MiB of %.2f\n",
                static_cast<unsigned long long>(seed), i, one.name,
                static_cast<double>(used) / kMiB, static_cast<double>(limit) / kMiB);
    return false;
  }
  return true;
}

int run(std::uint64_t seed, long steps, std::uint64_t histories) {
  const std::uint64_t limit = std::strtoull(std::getenv("MGPU_LIMIT_MIB"), nullptr, 10) * kMiB;
  std::string why;
  const auto machine = Machine::open(std::getenv("MGPU_FAKE_GPU"), why);
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  std::atomic<std::uint64_t>* const all = finished();
  if (library == nullptr || machine == nullptr || all == nullptr) {
    return std::puts("no library, no machine or no MGPU_HISTORIES"), 1;
  }
  Handle primary = nullptr;
  must(call("cuInit", 0U));
  // Other programs have all of the share.
  if (!granted(call("cuDevicePrimaryCtxRetain", &primary, 0))) return 0;
  must(call("cuCtxSetCurrent", primary));
  for (std::uint64_t i = 0; i < histories; ++i) {
    while (!held.empty()) release();
    if (!run_history(*machine, limit, seed + i, steps)) return 1;
    ++*all;
  }
  return 0;
}

}  // namespace
}  // namespace mgpu::fake_gpu

int main(int count, char** words) {
  if (count != 4) return 2;
  return mgpu::fake_gpu::run(std::strtoull(words[1], nullptr, 10), std::atol(words[2]),
                             std::strtoull(words[3], nullptr, 10));
}
