// Contexts, their limits, and which is current.
#include <cstdint>

#include "test/gpu/driver/pools.h"
#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

// CUlimit
constexpr int kStackSize = 0;
constexpr int kLimitMax = 8;
constexpr std::uint64_t kLimitDefaults[kLimitMax] = {kStackDefault, 8'650'752, 8'388'608, 2,
                                                     2048,          128,       0,         0};
constexpr std::uint64_t kStackMax = 512 * 1024;
constexpr std::uint64_t kThreadsOfAMultiprocessor = 2048;

Context& primary_of(int device) {
  return *process().primary[static_cast<std::size_t>(device)];
}

int create_context(Context** result, unsigned flags, int device) {
  return on_device(device, [&] {
    if (result == nullptr) return kInvalidValue;
    auto context = std::make_unique<Context>();
    context->card = device;
    context->flags = flags;
    if (const int code = begin_context(*context); code != kSuccess) return code;
    *result = context.release();
    context_stack().push_back(*result);
    return kSuccess;
  });
}

int release_primary(int device, bool at_once) {
  return on_device(device, [&] {
    Context& context = primary_of(device);
    if (context.retained == 0) return at_once ? kSuccess : kInvalidContext;
    if (--context.retained == 0 || at_once) end_context(context);
    return kSuccess;
  });
}

// The stacks of all threads that the card can run are allocated as soon as the limit is set.
int set_stack(Context& context, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kStackMax) return kInvalidValue;
  const auto multiprocessors =
      static_cast<std::uint64_t>(process().machine->card(context.card).multiprocessors);
  const std::uint64_t more = bytes > kStackDefault ? bytes - kStackDefault : 0;
  const std::uint64_t all = round_up(multiprocessors * kThreadsOfAMultiprocessor * more, kPage);
  context.stack = nullptr;
  if (all == 0) return kSuccess;
  context.stack = take_block(context.card, all);
  return context.stack != nullptr ? kSuccess : kOutOfMemory;
}

}  // namespace

int grow_stack(Context& context, std::uint64_t bytes) {
  const auto set = context.limits.find(kStackSize);
  if (bytes <= (set != context.limits.end() ? set->second : kStackDefault)) return kSuccess;
  const int code = set_stack(context, bytes);
  if (code == kSuccess) context.limits[kStackSize] = bytes;
  return code;
}

}  // namespace mgpu::fake_gpu

// --- primary contexts ----------------------------------------------------------------------------

FAKE_CUDA int cuDevicePrimaryCtxRetain(Context** result, int device) {
  return on_device(device, [&] {
    if (result == nullptr) return kInvalidValue;
    Context& context = primary_of(device);
    if (context.retained == 0) {
      if (const int code = begin_context(context); code != kSuccess) return code;
    }
    ++context.retained;
    *result = &context;
    return kSuccess;
  });
}

FAKE_CUDA int cuDevicePrimaryCtxRelease_v2(int device) {
  return release_primary(device, false);
}
FAKE_CUDA_ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

FAKE_CUDA int cuDevicePrimaryCtxReset_v2(int device) {
  return release_primary(device, true);
}
FAKE_CUDA_ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);

FAKE_CUDA int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return on_device(device, [&] {
    primary_of(device).flags = flags;
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);

FAKE_CUDA int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return on_device(device, [&] {
    if (flags == nullptr || active == nullptr) return kInvalidValue;
    *flags = primary_of(device).flags;
    *active = primary_of(device).retained > 0 ? 1 : 0;
    return kSuccess;
  });
}

// --- other contexts ------------------------------------------------------------------------------

FAKE_CUDA int cuCtxCreate_v2(Context** context, unsigned flags, int device) {
  return create_context(context, flags, device);
}

FAKE_CUDA int cuCtxCreate_v3(Context** context, void*, int, unsigned flags, int device) {
  return create_context(context, flags, device);
}

FAKE_CUDA int cuCtxCreate_v4(Context** context, void*, unsigned flags, int device) {
  return create_context(context, flags, device);
}

FAKE_CUDA int cuCtxDestroy_v2(Context* context) {
  return initialized([&] {
    if (!process().contexts.contains(context) || context->is_primary) return kInvalidContext;
    if (current_context() == context) context_stack().pop_back();
    end_context(*context);
    delete context;
    return kSuccess;
  });
}

// --- the current context -------------------------------------------------------------------------

FAKE_CUDA int cuCtxSetCurrent(Context* context) {
  return initialized([&] {
    if (context != nullptr && !process().contexts.contains(context)) return kInvalidContext;
    if (!context_stack().empty()) context_stack().pop_back();
    if (context != nullptr) context_stack().push_back(context);
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetCurrent(Context** context) {
  return initialized([&] {
    if (context == nullptr) return kInvalidValue;
    *context = current_context();
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxPushCurrent_v2(Context* context) {
  return initialized([&] {
    if (!process().contexts.contains(context)) return kInvalidContext;
    context_stack().push_back(context);
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxPopCurrent_v2(Context** context) {
  return initialized([&] {
    if (context_stack().empty()) return kInvalidContext;
    if (context != nullptr) *context = context_stack().back();
    context_stack().pop_back();
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetDevice(int* device) {
  return in_context([&](Context& context) {
    if (device == nullptr) return kInvalidValue;
    *device = context.card;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetDevice_v2(int* device, Context* context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  return initialized([&] {
    if (!process().contexts.contains(context)) return kInvalidContext;
    *device = context->card;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetFlags(unsigned* flags) {
  return in_context([&](Context& context) {
    *flags = context.flags;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetApiVersion(Context*, unsigned* version) {
  return initialized([&] {
    *version = 3020;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetId(Context* context, std::uint64_t* id) {
  return in_context([&](Context& current) {
    *id = reinterpret_cast<std::uint64_t>(context != nullptr ? context : &current);
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxSynchronize() {
  Moments all;
  const int code = in_context([&](Context& context) {
    settle_pools(context.card);
    all = all_of(context);
    return kSuccess;
  });
  const int waited = code == kSuccess ? wait_for(all) : code;
  if (waited == kSuccess) process().machine->set_work(false);
  return waited;
}

FAKE_CUDA int cuCtxSynchronize_v2(Context* context) {
  if (context == nullptr) return cuCtxSynchronize();
  Moments all;
  const int code = initialized([&] {
    if (!process().contexts.contains(context)) return kInvalidContext;
    settle_pools(context->card);
    all = all_of(*context);
    return kSuccess;
  });
  return code == kSuccess ? wait_for(all) : code;
}

FAKE_CUDA int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([&](Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetCacheConfig(int* config) {
  return in_context([&](Context&) {
    *config = 0;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxSetCacheConfig(int) {
  return in_context([](Context&) { return kSuccess; });
}

FAKE_CUDA int cuCtxEnablePeerAccess(Context* peer, unsigned flags) {
  return in_context([&](Context& context) {
    if (flags != 0) return kInvalidValue;
    const bool good = process().contexts.contains(peer) && peer->card != context.card;
    return good ? kSuccess : kInvalidContext;
  });
}

// --- limits --------------------------------------------------------------------------------------

FAKE_CUDA int cuCtxSetLimit(int limit, std::size_t value) {
  return in_context([&](Context& context) {
    if (limit < 0 || limit >= kLimitMax) return kInvalidValue;
    if (limit == kStackSize) {
      if (const int code = set_stack(context, value); code != kSuccess) return code;
    }
    context.limits[limit] = value;
    return kSuccess;
  });
}

FAKE_CUDA int cuCtxGetLimit(std::size_t* value, int limit) {
  return in_context([&](Context& context) {
    if (value == nullptr || limit < 0 || limit >= kLimitMax) return kInvalidValue;
    const auto set = context.limits.find(limit);
    *value = set != context.limits.end() ? set->second : kLimitDefaults[limit];
    return kSuccess;
  });
}
