// What the fake driver knows about this process, and the beginning of each of its functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "test/gpu/driver/capture.h"
#include "test/gpu/driver/errors.h"
#include "test/gpu/driver/faults.h"
#include "test/gpu/driver/memory.h"
#include "test/gpu/driver/mps.h"
#include "test/gpu/driver/time.h"
#include "test/gpu/machine.h"

// A function of libcuda.so.1. It replaces the weak one of symbols.cc.
#define FAKE_CUDA extern "C" __attribute__((visibility("default")))
// A name for another default stream, of which this driver has only one; or for the same function.
#define FAKE_CUDA_ALIAS(name, target) \
  extern "C" __attribute__((visibility("default"), alias(#target))) decltype(target) name

namespace mgpu::fake_gpu {

inline constexpr std::uint64_t kStackDefault = 1024;

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::shared_ptr<Capture> capture{};
  Timeline timeline{};
};

// The legacy default stream is null or 1, that of a thread is 2.
inline bool is_default(const Stream* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

struct Event {
  Context* context = nullptr;
  bool recorded = false;
  std::int64_t recorded_at = 0;        // nanoseconds
  Moments after{};                     // that it waits for
  std::shared_ptr<Capture> capture{};  // in which it was recorded last
  const Stream* stream = nullptr;      // of it
};

struct Module {
  Context* context = nullptr;
  std::string image{};
  bool is_text = false;                      // PTX, of which names and sizes can be read
  std::map<std::string, Pointer> globals{};  // with the sizes of their ranges
};

struct Function {
  Module* module = nullptr;
  std::string name{};
  std::uint64_t local_bytes = 0;  // of each thread
  KernelTime time{};
};

struct Array;

struct Context {
  int card = 0;
  bool is_primary = false;
  unsigned flags = 0;
  int retained = 0;  // of a primary context
  std::vector<BlockPointer> own{};
  SmallPieces small{};
  SmallPieces globals{};
  SmallPieces small_arrays{};
  std::map<int, std::uint64_t> limits{};
  BlockPointer stack{};
  std::vector<BlockPointer> stream_blocks{};
  std::set<Stream*> streams{};
  Timeline timeline{};  // of the default stream
  std::set<Module*> modules{};
  std::map<const void*, std::shared_ptr<Array>> arrays{};  // and mipmapped ones
};

struct Process {
  std::mutex mutex;
  std::unique_ptr<Machine> machine;
  bool initialized = false;
  bool forked = false;
  int broken = kSuccess;  // the result of all later calls with a context
  std::map<Pointer, Range> ranges;
  // Freed in the order of a stream, until something is synchronized.
  std::vector<std::map<Pointer, Range>::node_type> freed;
  std::uint64_t last_id = 0;
  std::set<Context*> contexts;
  std::vector<std::unique_ptr<Context>> primary;  // of each card
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Module*> modules;
  std::map<std::pair<Module*, std::string>, std::unique_ptr<Function>> functions;
  KernelQueue kernels;
};

// It is never destroyed, because threads may call functions until the very end.
Process& process();

// Of this thread; null if there is none.
Context* current_context();
std::vector<Context*>& context_stack();

// Takes the memory of a context. Returns a result.
int begin_context(Context& context);
// A kernel whose threads need a larger stack takes it, and the limit with it. Returns a result.
int grow_stack(Context& context, std::uint64_t bytes);
// Gives back all that the context has.
void end_context(Context& context);

bool is_device(int device);

// --- the beginning of functions ------------------------------------------------------------------

// The result of run(), with the lock of the process and after cuInit.
template <class Run>
int initialized(Run run, const char* function = __builtin_FUNCTION()) {
  if (const int code = fault_of_call(function); code != kSuccess) return code;
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (p.forked || !p.initialized) return kNotInitialized;
  return run();
}

// The result of run(device).
template <class Run>
int on_device(int device, Run run, const char* function = __builtin_FUNCTION()) {
  return initialized([&] { return is_device(device) ? run() : kInvalidDevice; }, function);
}

// The result of run(context), with the current context of the thread.
template <class Run>
int in_context(Run run, const char* function = __builtin_FUNCTION()) {
  return initialized(
      [&] {
        Process& p = process();
        Context* const context = current_context();
        if (context == nullptr) return kInvalidContext;
        if (!p.contexts.contains(context)) return kContextIsDestroyed;
        if (p.broken == kSuccess) p.broken = failure_of_mps();
        if (p.machine->is_lost(context->card)) p.broken = kUnknown;
        return p.broken == kSuccess ? run(*context) : p.broken;
      },
      function);
}

}  // namespace mgpu::fake_gpu
