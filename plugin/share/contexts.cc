// Contexts, and the stacks of their threads. A context takes an amount that is known for a card and
// a driver, which the page has.
#include <bit>

#include "plugin/share/launches.h"
#include "plugin/share/memory.h"
#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

struct Context {
  unsigned card;
  std::uint64_t bytes;
  std::uint64_t stack;     // the largest size of a thread's stack so far
  std::uint64_t heap = 0;  // the largest that was set
  std::uint64_t printf = 0;
};
pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
Table<Context> contexts;
constexpr std::uint64_t kDefaultStack = 1024;
// The card has this much more for a context than NVML shows for its process (seen: 5.56 MiB).
constexpr std::int64_t kHiddenOfContext = 6 << 20;
// The largest of all kernels that were looked up, or the default size of stacks.
std::uint64_t largest_local = kDefaultStack;
Handle primaries[kCardsMax];  // null: not active
std::uintptr_t last_ending = 0;

std::uint64_t key_of(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

std::uint64_t attribute_of(const Card& card, int attribute) {
  int value = 0;
  REAL(cuDeviceGetAttribute)(&value, attribute, card.device);
  return static_cast<std::uint64_t>(value);
}

// The driver counts for a client of MPS those that it may use (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE),
// and NVML the cores of the card. One has 64 or 128 of them (_ConvertSMVer2Cores() in helper_cuda.h
// of NVIDIA's samples). MPS limits clients from compute capability 7.0 on.
std::uint64_t multiprocessors_of(const Card& card) {
  const std::uint64_t usable = attribute_of(card, kMultiprocessors);
  const std::uint64_t major = attribute_of(card, kComputeMajor);
  const bool few = major == 7 || (major == 8 && attribute_of(card, kComputeMinor) == 0);
  const std::uint64_t all = major < 7 ? 0 : cores_of(card) / (few ? 64U : 128U);
  return all > usable ? all : usable;
}

// All threads that the card can have have a stack of this size at once.
std::uint64_t stacks_of(const Card& card, std::uint64_t size) {
  const std::uint64_t all =
      multiprocessors_of(card) * attribute_of(card, kThreadsPerMultiprocessor);
  return all != 0 && size > kUnitsMax * kUnit / all ? ~std::uint64_t{0} : size * all;
}

// A context with stacks for all kernels that were looked up.
Context new_context(const Card& card) {
  const Lock lock(mutex);
  return {.card = index_of(card),
          .bytes = card.account.context_bytes() + stacks_of(card, largest_local - kDefaultStack),
          .stack = largest_local};
}

void remember(const Context& context, Handle handle) {
  add_hidden(context.card, kHiddenOfContext);
  Context* const known = contexts.insert(key_of(handle));
  if (known != nullptr) *known = context;
}

// The driver has ended the context with all its memory.
void forget(Handle handle) {
  free_memory_of(handle);
  const Context* const context = contexts.find(key_of(handle));
  if (context == nullptr) return;
  card_at(context->card).account.give_back(context->bytes);
  add_hidden(context->card, -kHiddenOfContext);
  contexts.erase(key_of(handle));
}

void rename(Handle handle, Handle other) {
  rename_context(handle, other);
  const Context* const context = contexts.find(key_of(handle));
  if (context == nullptr) return;
  const Context same = *context;
  contexts.erase(key_of(handle));
  Context* const renamed = contexts.insert(key_of(other));
  if (renamed != nullptr) *renamed = same;
}

template <class Call>
Result create(Handle* handle, Device device, Call call) {
  Card* const card = card_of(device);
  if (card == nullptr) {
    const Result result = attach_cards();
    return result != kSuccess ? result : call();  // there is no such card
  }
  const Context context = new_context(*card);
  if (!reserve(*card, context.bytes)) return kOutOfMemory;
  const Result result = call();
  const Lock lock(mutex);
  if (result == kSuccess) {
    remember(context, *handle);
  } else {
    card->account.give_back(context.bytes);
  }
  return result;
}

// The driver may wait for work that waits for another thread, so that no lock is held. It may give
// the handle to another thread at once: what ends gets a name that no context has.
template <class Call>
Result destroy(Handle context, Call call) {
  if (!cards_attached()) return call();
  end_launches_of_context(context);
  Handle ending = nullptr;
  {
    const Lock lock(mutex);
    ending = std::bit_cast<Handle>(++last_ending);
    rename(context, ending);
  }
  const Result result = call();
  const Lock lock(mutex);
  if (result != kSuccess) {
    rename(ending, context);
    return result;
  }
  const Context* const ended = contexts.find(key_of(ending));
  const Card* const card = ended != nullptr ? &card_at(ended->card) : nullptr;
  forget(ending);
  if (card != nullptr) leave_to_nvml(*card, 0);
  return result;
}

// The driver says when the primary context ends: others than its users retain it, as green contexts
// do.
template <class Call>
Result release(Device device, Call call) {
  Card* const card = card_of(device);
  if (card == nullptr) return call();
  const Lock lock(mutex);
  end_launches_of_context(primaries[index_of(*card)]);
  const Result result = call();
  unsigned flags = 0;
  int active = 1;
  REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active);
  Handle& primary = primaries[index_of(*card)];
  if (result != kSuccess || active != 0 || primary == nullptr) return result;
  forget(primary);
  primary = nullptr;
  leave_to_nvml(*card, 0);
  return result;
}

// The driver may wait for kernels, so that no lock is held.
Result set_stack_size(std::size_t size) {
  Card* const card = current_card();
  if (card == nullptr) return no_card();
  Handle current = nullptr;
  std::size_t before = 0;
  REAL(cuCtxGetCurrent)(&current);
  REAL(cuCtxGetLimit)(&before, kStackSize);
  std::uint64_t more = 0;
  {
    const Lock lock(mutex);
    Context* const context = contexts.insert(key_of(current));
    if (context == nullptr) return kOutOfMemory;
    context->card = index_of(*card);
    if (context->stack < before) context->stack = before;
    before = context->stack;
    if (size > before) more = stacks_of(*card, size - before);
    if (more > 0 && !reserve(*card, more)) return kOutOfMemory;
    if (more > 0) context->stack = size;
    context->bytes += more;
  }
  const Result result = REAL(cuCtxSetLimit)(kStackSize, size);
  if (result == kSuccess || more == 0) return result;
  std::size_t now = 0;
  REAL(cuCtxGetLimit)(&now, kStackSize);
  const Lock lock(mutex);
  Context* const context = contexts.find(key_of(current));
  if (context == nullptr || context->stack != size || now >= size) return result;
  context->stack = before;
  context->bytes -= more;
  card->account.give_back(more);
  return result;
}

// The driver takes it when a kernel is loaded that uses it. It does not shrink.
Result set_heap_size(int limit, std::size_t size) {
  Card* const card = current_card();
  if (card == nullptr) return no_card();
  Handle current = nullptr;
  std::size_t before = 0;
  REAL(cuCtxGetCurrent)(&current);
  REAL(cuCtxGetLimit)(&before, limit);
  std::uint64_t Context::*const largest = limit == kHeapSize ? &Context::heap : &Context::printf;
  std::uint64_t most = before;
  std::uint64_t more = 0;
  // Changes what is counted for the context, if it is known.
  const auto count = [&](std::int64_t bytes, std::uint64_t size_now) {
    Context* const context = contexts.find(key_of(current));
    if (context == nullptr) return;
    context->bytes += static_cast<std::uint64_t>(bytes);
    context->*largest = size_now;
  };
  {
    const Lock lock(mutex);
    const Context* const context = contexts.find(key_of(current));
    if (context != nullptr && context->*largest > most) most = context->*largest;
    if (size > most) more = size - most;
    if (more > 0 && !reserve(*card, more)) return kOutOfMemory;
    if (more > 0) count(static_cast<std::int64_t>(more), size);
  }
  const Result result = REAL(cuCtxSetLimit)(limit, size);
  if (result == kSuccess || more == 0) return result;
  const Lock lock(mutex);
  count(-static_cast<std::int64_t>(more), most);
  card->account.give_back(more);
  return result;
}

}  // namespace

void forget_contexts() {
  const Lock lock(mutex);
  largest_local = kDefaultStack;
  contexts.clear();
  for (Handle& primary : primaries) primary = nullptr;
}

// A launch may be in any context.
bool reserve_local_memory(std::uint64_t bytes) {
  const Lock lock(mutex);
  if (bytes <= largest_local) return true;
  for (unsigned i = 0; i < card_count(); ++i) {
    const std::uint64_t threads = stacks_of(card_at(i), 1);
    std::uint64_t more = 0;
    const auto each = [&](auto change) {
      contexts.for_each([&](std::uint64_t, Context& context) {
        if (context.card != i || context.stack >= bytes) return;
        change(context, threads * (bytes - context.stack));
      });
    };
    each([&](const Context&, std::uint64_t growth) { more += growth; });
    if (more > 0 && !reserve(card_at(i), more)) return false;
    each([&](Context& context, std::uint64_t growth) {
      context.bytes += growth;
      context.stack = bytes;
    });
  }
  largest_local = bytes;
  return true;
}

// --- the driver's functions ------------------------------------------------------------

Result cuCtxCreate(Handle* context, unsigned flags, Device device) {
  return create(context, device, [&] { return REAL(cuCtxCreate)(context, flags, device); });
}

Result cuCtxCreate_v2(Handle* context, unsigned flags, Device device) {
  return create(context, device, [&] { return REAL(cuCtxCreate_v2)(context, flags, device); });
}

Result cuCtxCreate_v3(Handle* context, void* affinity, int count, unsigned flags, Device device) {
  return create(context, device,
                [&] { return REAL(cuCtxCreate_v3)(context, affinity, count, flags, device); });
}

Result cuCtxCreate_v4(Handle* context, void* parameters, unsigned flags, Device device) {
  return create(context, device,
                [&] { return REAL(cuCtxCreate_v4)(context, parameters, flags, device); });
}

Result cuCtxDestroy(Handle context) {
  return destroy(context, [&] { return REAL(cuCtxDestroy)(context); });
}

Result cuCtxDestroy_v2(Handle context) {
  return destroy(context, [&] { return REAL(cuCtxDestroy_v2)(context); });
}

Result cuDevicePrimaryCtxRetain(Handle* context, Device device) {
  Card* const card = card_of(device);
  if (card == nullptr) {
    const Result result = attach_cards();
    return result != kSuccess ? result : REAL(cuDevicePrimaryCtxRetain)(context, device);
  }
  const Lock lock(mutex);
  Handle& primary = primaries[index_of(*card)];
  if (primary != nullptr) return REAL(cuDevicePrimaryCtxRetain)(context, device);
  const Context made = new_context(*card);
  if (!reserve(*card, made.bytes)) return kOutOfMemory;
  const Result result = REAL(cuDevicePrimaryCtxRetain)(context, device);
  if (result == kSuccess) {
    primary = *context;
    remember(made, *context);
  } else {
    card->account.give_back(made.bytes);
  }
  return result;
}

Result cuDevicePrimaryCtxRelease(Device device) {
  return release(device, [&] { return REAL(cuDevicePrimaryCtxRelease)(device); });
}

Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return release(device, [&] { return REAL(cuDevicePrimaryCtxRelease_v2)(device); });
}

Result cuDevicePrimaryCtxReset(Device device) {
  return release(device, [&] { return REAL(cuDevicePrimaryCtxReset)(device); });
}

Result cuDevicePrimaryCtxReset_v2(Device device) {
  return release(device, [&] { return REAL(cuDevicePrimaryCtxReset_v2)(device); });
}

// Another card than before would have the memory, and nothing counted.
Result cuCheckpointProcessRestore(int pid, void** arguments) {
  const bool moves = arguments != nullptr && arguments[0] != nullptr;  // the pairs of cards
  return moves ? kNotSupported : REAL(cuCheckpointProcessRestore)(pid, arguments);
}

Result cuCtxSetLimit(int limit, std::size_t value) {
  if (limit == kStackSize) return set_stack_size(value);
  const bool takes_memory = limit == kPrintfSize || limit == kHeapSize;
  return takes_memory ? set_heap_size(limit, value) : REAL(cuCtxSetLimit)(limit, value);
}

}  // namespace mgpu::share
