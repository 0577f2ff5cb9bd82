// A driver with two cards of 16 GiB whose memory behaves as that of an H200 with driver 580.159.04:
// chunks of 2 MiB, pools with chunks of 32 MiB that shrink at synchronization, physical memory with
// references, memory of graphs that is reserved at a launch. It belongs to one process, and has no
// kernels. fake_rest.cc has the other functions.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "plugin/share/driver.h"

#define EXPORT extern "C" __attribute__((visibility("default")))
extern "C" void* fake_address_of(const char* name);

namespace mgpu::share {
namespace {

constexpr std::uint64_t kChunk = std::uint64_t{2} << 20U;
constexpr std::uint64_t kPoolChunk = std::uint64_t{32} << 20U;
constexpr std::uint64_t kTotal = std::uint64_t{16} << 30U;
constexpr std::uint64_t kContext = std::uint64_t{100} << 20U;
constexpr std::uint64_t kHiddenOfContext = std::uint64_t{6} << 20U;
constexpr std::uint64_t kManagedRest = std::uint64_t{126} << 20U;
constexpr std::uint64_t kStream = std::uint64_t{2} << 20U;
constexpr Result kInvalid = 1;

struct FakePool {
  int card = 0;
  bool on_host = false;
  bool destroyed = false;
  std::uint64_t reserved = 0;
  std::uint64_t in_use = 0;
};
struct FakePhysical {
  int card;
  std::uint64_t bytes;
  int references;
  bool kept = false;  // by an array, a multicast object or a file
};
struct FakeContext {
  int card;
  std::uint64_t stack = 1024;
};
struct FakeImage {  // what a program loads as a module
  std::uint64_t variables;
  int local;
};
struct FakeModule {
  FakeImage image;
  bool loaded[2];
};
struct FakeNode {
  int type;
  AllocationNode allocation;
};
struct FakeGraph {
  std::vector<FakeNode*> nodes;
};
struct FakeExec {
  std::uint64_t bytes;
};
struct FakeBlock {
  int card;
  std::uint64_t bytes;  // on the card
  FakePool* pool;
  std::uint64_t piece = 0;
  FakeContext* context = nullptr;
  bool managed = false;
};

std::recursive_mutex mutex;
pid_t started = 0;
std::uint64_t used[2];
std::uint64_t managed_rest[2];
std::uint64_t hidden[2];  // and not in NVML's list of processes
std::uint64_t peak[2];
std::map<Address, FakeBlock> blocks;
std::map<Address, FakePhysical*> handles;
std::map<Address, std::pair<std::size_t, FakePhysical*>> mappings;
std::map<std::pair<int, std::uint64_t>, std::set<Address>> places;  // for small pieces
std::map<Address, int> pieces;                                      // in each chunk
FakePool defaults[2] = {{.card = 0}, {.card = 1}};
std::set<FakePool*> all_pools = {&defaults[0], &defaults[1]};
FakeContext primary[2] = {{.card = 0}, {.card = 1}};
int retained[2];
thread_local FakeContext* current = nullptr;
thread_local FakeContext* pushed = nullptr;
std::uint64_t graph_reserved[2];
Address next_address = 0x100000000;
bool lists_others = false;
bool capturing = false;
std::uint64_t last_capture = 1;
bool another_capture = false;
bool capture_ends = false;  // after the next question
void (*callback)() = nullptr;

// A tool or another thread calls the driver while this call does not return. Not within itself.
void call_back() {
  void (*const call)() = callback;
  callback = nullptr;
  if (call != nullptr) call();
  callback = call;
}

std::uint64_t up(std::uint64_t bytes, std::uint64_t step) {
  return (bytes + step - 1) / step * step;
}

void shrink(int card) {
  for (FakePool* pool : all_pools) {
    if (pool->card != card) continue;
    const std::uint64_t keep = up(pool->in_use, kPoolChunk);
    used[card] -= pool->reserved - keep;
    pool->reserved = keep;
  }
}

bool take(int card, std::uint64_t bytes) {
  if (used[card] + bytes > kTotal) shrink(card);
  if (used[card] + bytes > kTotal) return false;
  used[card] += bytes;
  peak[card] = std::max(peak[card], used[card]);
  return true;
}

Address new_address(std::uint64_t bytes) {
  const Address address = next_address;
  next_address += up(bytes + 1, kChunk);
  return address;
}

Result ready() {
  return started == getpid() ? kSuccess : kNotInitialized;
}

Result with_context() {
  return ready() != kSuccess ? ready() : current == nullptr ? 201 : kSuccess;
}

Result allocate(Address* address, std::uint64_t bytes, std::uint64_t on_card) {
  const std::lock_guard lock(mutex);
  if (with_context() != kSuccess) return with_context();
  if (bytes == 0 || address == nullptr) return kInvalid;
  if (!take(current->card, on_card)) return kOutOfMemory;
  *address = new_address(bytes);
  blocks[*address] = {current->card, on_card, nullptr, 0, current};
  return kSuccess;
}

void end_pool(FakePool* pool) {
  if (!pool->destroyed || pool->in_use > 0) return;
  used[pool->card] -= pool->reserved;
  all_pools.erase(pool);
  delete pool;
}

// Some of it stays with the driver for other managed memory.
void drop_managed(const FakeBlock& block) {
  std::uint64_t& rest = managed_rest[block.card];
  const std::uint64_t kept = std::min(block.bytes, kManagedRest - rest);
  rest += kept;
  used[block.card] += kept;
  hidden[block.card] -= block.bytes - kept;
}

void drop_piece(Address address, const FakeBlock& block) {
  auto& free = places[{block.card, block.piece}];
  free.insert(address);
  if (--pieces[address / kChunk] > 0) return;
  used[block.card] -= kChunk;
  const Address chunk = address / kChunk * kChunk;
  free.erase(free.lower_bound(chunk), free.lower_bound(chunk + kChunk));
}

Result release(Address address) {
  const std::lock_guard lock(mutex);
  if (with_context() != kSuccess) return with_context();
  if (address == 0) return kSuccess;
  const auto found = blocks.find(address);
  if (found == blocks.end()) return kInvalid;
  if (found->second.pool != nullptr) {
    found->second.pool->in_use -= found->second.bytes;
    end_pool(found->second.pool);
  } else {
    used[found->second.card] -= found->second.bytes;
    if (found->second.managed) drop_managed(found->second);
  }
  const FakeBlock block = found->second;
  blocks.erase(found);
  if (block.piece != 0) drop_piece(address, block);
  return kSuccess;
}

Result allocate_from(FakePool* pool, Address* address, std::uint64_t bytes) {
  call_back();
  const std::lock_guard lock(mutex);
  if (with_context() != kSuccess) return with_context();
  if (bytes == 0) return kInvalid;
  if (capturing || pool->on_host) {
    *address = new_address(bytes);
    return kSuccess;
  }
  const std::uint64_t wanted = up(pool->in_use + bytes, kPoolChunk);
  if (wanted > pool->reserved) {
    if (!take(pool->card, wanted - pool->reserved)) return kOutOfMemory;
    pool->reserved = wanted;
  }
  pool->in_use += bytes;
  *address = new_address(bytes);
  blocks[*address] = {pool->card, bytes, pool};
  return kSuccess;
}

void drop(FakePhysical* physical) {
  if (--physical->references > 0) return;
  if (physical->kept) {
    hidden[physical->card] += physical->bytes;
    return;
  }
  used[physical->card] -= physical->bytes;
  delete physical;
}

Result new_context(Handle* context, int card) {
  const std::lock_guard lock(mutex);
  if (ready() != kSuccess) return ready();
  if (card < 0 || card > 1) return 101;
  if (!take(card, kContext)) return kOutOfMemory;
  hidden[card] += kHiddenOfContext;
  *context = current = new FakeContext{.card = card};
  return kSuccess;
}

Result launch(Handle exec) {
  call_back();
  const std::lock_guard lock(mutex);
  const std::uint64_t bytes = static_cast<FakeExec*>(exec)->bytes;
  if (bytes <= graph_reserved[0]) return kSuccess;
  const std::uint64_t more = up(bytes - graph_reserved[0], kChunk);
  if (take(0, more)) {
    graph_reserved[0] += more;
    return kSuccess;
  }
  graph_reserved[0] += kTotal - used[0];  // and all of it stays reserved
  used[0] = peak[0] = kTotal;
  return kOutOfMemory;
}

Result address_of(const char* name, void** function, int version, int* status) {
  std::string symbol = name;
  if (symbol == "cuMemAlloc" && version >= 99000) {
    *function = fake_address_of("cuMemAlloc_v99");
    return kSuccess;
  }
  void* found = fake_address_of(symbol.c_str());
  for (const char* suffix : {"_v2", "_v3", "_v4"}) {
    if (void* const newer = fake_address_of((symbol + suffix).c_str())) found = newer;
  }
  *function = found;
  if (status != nullptr) *status = found == nullptr ? 1 : 0;
  return found == nullptr && status == nullptr ? kNotFound : kSuccess;
}

}  // namespace

EXPORT std::uint64_t fake_used(int card) {
  return used[card];
}
EXPORT std::uint64_t fake_peak(int card) {
  return peak[card];
}
EXPORT void fake_capture(bool on, bool ends) {
  capturing = on;
  capture_ends = ends;
}
EXPORT void fake_list_others() {
  lists_others = true;
}
EXPORT void fake_callback(void (*call)()) {
  callback = call;
}
EXPORT Result cuMemAlloc_v99(Address* address, std::size_t bytes) {
  return allocate(address, bytes, up(bytes, kChunk));
}

EXPORT Result cuInit(unsigned) {
  // In the child of a process that has called it, CUDA does not work.
  if (started != 0 && started != getpid()) return kNotInitialized;
  started = getpid();
  return kSuccess;
}
EXPORT Result cuGetProcAddress(const char* name, void** function, int version, std::uint64_t) {
  return address_of(name, function, version, nullptr);
}
EXPORT Result cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t,
                                  int* status) {
  return address_of(name, function, version, status);
}
EXPORT Result cuDeviceGetCount(int* count) {
  *count = 2;
  return ready();
}
EXPORT Result cuDeviceGet(Device* device, int ordinal) {
  *device = ordinal;
  return ready();
}
EXPORT Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  std::memset(uuid, device + 1, sizeof(*uuid));
  return ready();
}
EXPORT Result cuDeviceGetAttribute(int* value, int attribute, Device) {
  *value = attribute == kMultiprocessors ? 10 : 1024;
  return kSuccess;
}
EXPORT Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  *bytes = kTotal;
  return ready();
}
EXPORT Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  if (with_context() != kSuccess) return with_context();
  *free = kTotal - used[current->card];
  *total = kTotal;
  return kSuccess;
}

EXPORT Result cuCtxCreate_v2(Handle* context, unsigned, Device device) {
  return new_context(context, device);
}
EXPORT Result cuCtxCreate_v4(Handle* context, void*, unsigned, Device device) {
  return new_context(context, device);
}
EXPORT Result cuCtxDestroy_v2(Handle handle) {
  call_back();
  const std::lock_guard lock(mutex);
  const auto* const ended = static_cast<FakeContext*>(handle);
  used[ended->card] -= kContext + (ended->stack - 1024) * 10 * 1024;
  hidden[static_cast<FakeContext*>(handle)->card] -= kHiddenOfContext;
  std::erase_if(blocks, [&](const auto& block) {
    if (block.second.context != handle) return false;
    used[block.second.card] -= block.second.bytes;
    if (block.second.piece != 0) drop_piece(block.first, block.second);
    return true;
  });
  if (current == handle) current = nullptr;
  return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxRetain(Handle* context, Device device) {
  const std::lock_guard lock(mutex);
  if (ready() != kSuccess) return ready();
  if (retained[device] == 0 && !take(device, kContext)) return kOutOfMemory;
  if (retained[device] == 0) hidden[device] += kHiddenOfContext;
  ++retained[device];
  *context = &primary[device];
  return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxRelease_v2(Device device) {
  const std::lock_guard lock(mutex);
  if (--retained[device] > 0) return kSuccess;
  used[device] -= kContext + (primary[device].stack - 1024) * 10 * 1024;
  primary[device].stack = 1024;
  hidden[device] -= kHiddenOfContext;
  return kSuccess;
}
EXPORT Result cuDevicePrimaryCtxGetState(Device device, unsigned*, int* active) {
  *active = retained[device] > 0 ? 1 : 0;
  return kSuccess;
}
EXPORT Result cuCtxSetCurrent(Handle context) {
  current = static_cast<FakeContext*>(context);
  return ready();
}
EXPORT Result cuCtxGetCurrent(Handle* context) {
  *context = current;
  return ready();
}
EXPORT Result cuCtxPushCurrent_v2(Handle context) {
  pushed = current;
  current = static_cast<FakeContext*>(context);
  return kSuccess;
}
EXPORT Result cuCtxPopCurrent_v2(Handle* context) {
  *context = current;
  current = pushed;
  return kSuccess;
}
EXPORT Result cuCtxGetDevice(Device* device) {
  if (with_context() != kSuccess) return with_context();
  *device = current->card;
  return kSuccess;
}
EXPORT Result cuCtxGetLimit(std::size_t* value, int) {
  *value = current->stack;
  return kSuccess;
}
EXPORT Result cuCtxSetLimit(int limit, std::size_t value) {
  const std::lock_guard lock(mutex);
  if (limit != kStackSize || value <= current->stack) return kSuccess;
  if (!take(current->card, (value - current->stack) * 10 * 1024)) return kOutOfMemory;
  current->stack = value;
  return kSuccess;
}

EXPORT Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (bytes == 0 || bytes > kChunk / 2 || with_context() != kSuccess) {
    return allocate(address, bytes, up(bytes, kChunk));
  }
  const std::lock_guard lock(mutex);
  std::uint64_t piece = 512;
  while (piece < bytes) piece *= 2;
  // Pieces of a size share chunks, and the first free place is taken.
  auto& free = places[{current->card, piece}];
  if (free.empty()) {
    if (!take(current->card, kChunk)) return kOutOfMemory;
    const Address chunk = new_address(kChunk - 1);
    for (Address at = chunk; at < chunk + kChunk; at += piece) free.insert(at);
  }
  *address = *free.begin();
  free.erase(free.begin());
  ++pieces[*address / kChunk];
  blocks[*address] = {current->card, 0, nullptr, piece, current};
  return kSuccess;
}
EXPORT Result cuMemAllocPitch_v2(Address* address, std::size_t* pitch, std::size_t width,
                                 std::size_t height, unsigned) {
  *pitch = up(width, 512);
  return allocate(address, *pitch * height, up(*pitch * height, kChunk));
}
EXPORT Result cuMemAllocManaged(Address* address, std::size_t bytes, unsigned) {
  const std::lock_guard lock(mutex);
  if (with_context() != kSuccess) return with_context();
  const int card = current->card;
  const std::uint64_t again = std::min(managed_rest[card], up(bytes, kChunk));
  const Result result = allocate(address, bytes, up(bytes, kChunk) - again);
  if (result != kSuccess) return result;
  FakeBlock& block = blocks[*address];
  hidden[card] += block.bytes;
  managed_rest[card] -= again;
  block.managed = true;
  block.bytes += again;
  return kSuccess;
}
EXPORT Result cuMemFree_v2(Address address) {
  return release(address);
}
EXPORT Result cuArray3DCreate_v2(Handle* array, const Array3dDescriptor<std::size_t>* d) {
  const std::uint64_t bytes = d->width * std::max<std::uint64_t>(d->height, 1) *
                              std::max<std::uint64_t>(d->depth, 1) * d->channels * 4;
  Address address = 0;
  const Result result = allocate(&address, bytes, up(bytes, kChunk));
  *array = reinterpret_cast<Handle>(address);
  return result;
}
EXPORT Result cuArrayCreate_v2(Handle* array, const ArrayDescriptor<std::size_t>* d) {
  const Array3dDescriptor<std::size_t> flat{d->width, d->height, 0, d->format, d->channels, 0};
  return cuArray3DCreate_v2(array, &flat);
}
EXPORT Result cuMipmappedArrayCreate(Handle* array, const Array3dDescriptor<std::size_t>* d,
                                     unsigned) {
  return cuArray3DCreate_v2(array, d);
}
EXPORT Result cuArrayDestroy(Handle array) {
  return release(reinterpret_cast<Address>(array));
}
EXPORT Result cuMipmappedArrayDestroy(Handle array) {
  return release(reinterpret_cast<Address>(array));
}

EXPORT Result cuMemCreate(Address* handle, std::size_t bytes,
                          const AllocationProperties* properties, std::uint64_t) {
  const std::lock_guard lock(mutex);
  if (bytes == 0 || bytes % kChunk != 0) return kInvalid;
  const int card = properties->location.id;
  if (!take(card, bytes)) return kOutOfMemory;
  *handle = new_address(1);
  handles[*handle] = new FakePhysical{card, bytes, 1};
  return kSuccess;
}
EXPORT Result cuMemRelease(Address handle) {
  const std::lock_guard lock(mutex);
  const auto found = handles.find(handle);
  if (found == handles.end()) return kInvalid;
  drop(found->second);
  handles.erase(found);
  return kSuccess;
}
EXPORT Result cuMemMap(Address address, std::size_t bytes, std::size_t, Address handle,
                       std::uint64_t) {
  const std::lock_guard lock(mutex);
  if (!handles.contains(handle)) return kInvalid;
  mappings[address] = {bytes, handles[handle]};
  ++handles[handle]->references;
  return kSuccess;
}
EXPORT Result cuMemUnmap(Address address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  for (auto at = mappings.lower_bound(address);
       at != mappings.end() && at->first < address + bytes;) {
    drop(at->second.second);
    at = mappings.erase(at);
  }
  return kSuccess;
}
EXPORT Result cuMemRetainAllocationHandle(Address* handle, void* address) {
  const std::lock_guard lock(mutex);
  auto at = mappings.upper_bound(reinterpret_cast<Address>(address));
  if (at == mappings.begin()) return kInvalid;
  --at;
  *handle = new_address(1);
  handles[*handle] = at->second.second;
  ++at->second.second->references;
  return kSuccess;
}

EXPORT Result cuMemMapArrayAsync(ArrayMapping* list, unsigned count, Handle) {
  const std::lock_guard lock(mutex);
  for (unsigned i = 0; i < count; ++i)
    if (list[i].handle != 0) handles[list[i].handle]->kept = true;
  return kSuccess;
}
EXPORT Result cuMulticastBindMem(Address object, std::size_t, Address handle, std::size_t,
                                 std::size_t, std::uint64_t) {
  const std::lock_guard lock(mutex);
  if (object == 0 || !handles.contains(handle)) return kInvalid;
  handles[handle]->kept = true;
  return kSuccess;
}
EXPORT Result cuMemExportToShareableHandle(void*, Address handle, int, std::uint64_t) {
  const std::lock_guard lock(mutex);
  if (!handles.contains(handle)) return kInvalid;
  handles[handle]->kept = true;
  return kSuccess;
}
// The object holds the memory after it was freed.
EXPORT Result cuMulticastBindAddr(Address, std::size_t, Address address, std::size_t,
                                  std::uint64_t) {
  const std::lock_guard lock(mutex);
  const auto mapping = mappings.find(address);
  if (mapping != mappings.end()) {
    mapping->second.second->kept = true;
  } else {
    FakeBlock& block = std::prev(blocks.upper_bound(address))->second;
    block.bytes = 0;
  }
  return kSuccess;
}

EXPORT Result cuDeviceGetMemPool(Handle* pool, Device device) {
  *pool = &defaults[device];
  return kSuccess;
}
EXPORT Result cuDeviceGetDefaultMemPool(Handle* pool, Device device) {
  *pool = &defaults[device];
  return kSuccess;
}
EXPORT Result cuMemPoolCreate(Handle* pool, const PoolProperties* properties) {
  const std::lock_guard lock(mutex);
  auto* const made = new FakePool{.card = properties->location.id,
                                  .on_host = properties->location.type != kDeviceLocation};
  all_pools.insert(made);
  *pool = made;
  return kSuccess;
}
// It ends with the last of its memory.
EXPORT Result cuMemPoolDestroy(Handle pool) {
  const std::lock_guard lock(mutex);
  auto* const found = static_cast<FakePool*>(pool);
  found->destroyed = true;
  end_pool(found);
  return kSuccess;
}
EXPORT Result cuMemPoolGetAttribute(Handle pool, int attribute, void* value) {
  const auto* const found = static_cast<FakePool*>(pool);
  *static_cast<std::uint64_t*>(value) =
      attribute == kPoolReserved ? found->reserved : found->in_use;
  return kSuccess;
}
EXPORT Result cuMemPoolTrimTo(Handle pool, std::size_t) {
  const std::lock_guard lock(mutex);
  shrink(static_cast<FakePool*>(pool)->card);
  return kSuccess;
}
EXPORT Result cuMemAllocAsync(Address* address, std::size_t bytes, Handle) {
  return allocate_from(&defaults[current->card], address, bytes);
}
EXPORT Result cuMemAllocAsync_ptsz(Address* address, std::size_t bytes, Handle) {
  return allocate_from(&defaults[current->card], address, bytes);
}
EXPORT Result cuMemAllocFromPoolAsync(Address* address, std::size_t bytes, Handle pool, Handle) {
  return allocate_from(static_cast<FakePool*>(pool), address, bytes);
}
EXPORT Result cuMemAllocFromPoolAsync_ptsz(Address* address, std::size_t bytes, Handle pool,
                                           Handle) {
  return allocate_from(static_cast<FakePool*>(pool), address, bytes);
}
EXPORT Result cuMemFreeAsync_ptsz(Address address, Handle) {
  return release(address);
}
EXPORT Result cuMemFreeAsync(Address address, Handle) {
  return release(address);
}
// A stream is a context here.
EXPORT Result cuStreamGetCtx(Handle stream, Handle* context) {
  *context = stream;
  return kSuccess;
}
EXPORT Result cuStreamIsCapturing_ptsz(Handle, int* status) {
  *status = 0;
  return kSuccess;
}
EXPORT Result cuStreamIsCapturing(Handle, int* status) {
  *status = capturing ? 1 : 0;
  return kSuccess;
}
// One that ends does so after the answer, and the next answer is about another one.
EXPORT Result cuStreamGetCaptureInfo(Handle, int* status, std::uint64_t* id) {
  if (another_capture) ++last_capture;
  *status = capturing || another_capture ? 1 : 0;
  *id = last_capture;
  another_capture = capturing && capture_ends;
  capturing = capturing && !capture_ends;
  return kSuccess;
}
EXPORT Result cuStreamGetCaptureInfo_ptsz(Handle, int* status, std::uint64_t*) {
  *status = 0;
  return kSuccess;
}
EXPORT Result cuEventSynchronize(Handle) {
  const std::lock_guard lock(mutex);
  shrink(current->card);
  return kSuccess;
}
EXPORT Result cuStreamSynchronize(Handle) {
  const std::lock_guard lock(mutex);
  shrink(current->card);
  return kSuccess;
}

Result load_module(FakeModule* module) {
  const std::lock_guard lock(mutex);
  if (with_context() != kSuccess) return with_context();
  if (module->loaded[current->card]) return kSuccess;
  if (!take(current->card, up(module->image.variables, kChunk))) return kOutOfMemory;
  module->loaded[current->card] = true;
  return kSuccess;
}
Result unload_module(Handle module) {
  const std::lock_guard lock(mutex);
  auto* const known = static_cast<FakeModule*>(module);
  for (int card : {0, 1})
    if (known->loaded[card]) used[card] -= up(known->image.variables, kChunk);
  delete known;
  return kSuccess;
}
// Modules are loaded at once, libraries when they are used.
EXPORT Result cuModuleLoadData(Handle* module, const void* image) {
  *module = new FakeModule{*static_cast<const FakeImage*>(image), {}};
  return load_module(static_cast<FakeModule*>(*module));
}
EXPORT Result cuModuleUnload(Handle module) {
  return unload_module(module);
}
EXPORT Result cuModuleGetFunction(Handle* function, Handle module, const char*) {
  *function = module;
  return kSuccess;
}
EXPORT Result cuFuncGetAttribute(int* value, int, Handle function) {
  *value = static_cast<FakeModule*>(function)->image.local;
  return kSuccess;
}
EXPORT Result cuLibraryLoadData(Handle* library, const void* image, int*, void**, unsigned, int*,
                                void**, unsigned) {
  *library = new FakeModule{*static_cast<const FakeImage*>(image), {}};
  return kSuccess;
}
EXPORT Result cuLibraryUnload(Handle library) {
  return unload_module(library);
}
EXPORT Result cuLibraryGetGlobal(Address* address, std::size_t* bytes, Handle library,
                                 const char*) {
  *address = 1;
  *bytes = static_cast<FakeModule*>(library)->image.variables;
  return load_module(static_cast<FakeModule*>(library));
}
EXPORT Result cuLibraryGetKernel(Handle* kernel, Handle library, const char*) {
  *kernel = library;
  return kSuccess;
}
EXPORT Result cuKernelGetAttribute(int* value, int, Handle kernel, Device) {
  *value = static_cast<FakeModule*>(kernel)->image.local;
  return kSuccess;
}
EXPORT Result cuKernelGetFunction(Handle* function, Handle kernel) {
  *function = kernel;
  return load_module(static_cast<FakeModule*>(kernel));
}
// A launch lets the stacks of its context grow.
EXPORT Result cuLaunchKernel(Handle function, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, Handle, void**, void**) {
  const std::lock_guard lock(mutex);
  auto* const module = static_cast<FakeModule*>(function);
  if (load_module(module) != kSuccess) return kOutOfMemory;
  return cuCtxSetLimit(kStackSize, static_cast<std::size_t>(module->image.local));
}
EXPORT Result cuStreamCreate(Handle* stream, unsigned) {
  *stream = new int{current->card};
  return take(current->card, kStream) ? kSuccess : kOutOfMemory;
}
EXPORT Result cuStreamDestroy_v2(Handle stream) {
  used[*static_cast<int*>(stream)] -= kStream;
  return kSuccess;
}

EXPORT Result cuCheckpointProcessRestore(int, void**) {
  return kSuccess;
}

// --- NVML ---
EXPORT Result nvmlInit_v2() {
  return kSuccess;
}
EXPORT Result nvmlDeviceGetHandleByUUID(const char* uuid, Handle* device) {
  static int cards[2] = {0, 1};
  *device = &cards[uuid[5] - '1'];
  return kSuccess;
}
struct ListedProcess {
  unsigned pid;
  std::uint64_t bytes;
  unsigned unused[2];
};
EXPORT Result nvmlDeviceGetComputeRunningProcesses_v3(Handle device, unsigned* count,
                                                      ListedProcess* processes) {
  const std::lock_guard lock(mutex);
  const int card = *static_cast<int*>(device);
  processes[0] = {1, kTotal, {}};
  processes[1] = {static_cast<unsigned>(getpid()), used[card] - hidden[card], {}};
  *count = used[card] > 0 ? 2 : 1;
  // A process of the node with the same ID, where NVML lists those.
  if (lists_others) processes[1].bytes = kTotal;
  if (lists_others) *count = 2;
  return kSuccess;
}

EXPORT Result cuGraphCreate(Handle* graph, unsigned) {
  *graph = new FakeGraph;
  return kSuccess;
}
EXPORT Result cuGraphAddMemAllocNode(Handle* node, Handle graph, const Handle*, std::size_t,
                                     AllocationNode* parameters) {
  auto* const made = new FakeNode{kAllocationNode, *parameters};
  static_cast<FakeGraph*>(graph)->nodes.push_back(made);
  *node = made;
  return kSuccess;
}
EXPORT Result cuGraphGetNodes(Handle graph, Handle* nodes, std::size_t* count) {
  const auto& all = static_cast<FakeGraph*>(graph)->nodes;
  *count = all.size();
  if (nodes != nullptr) std::copy(all.begin(), all.end(), nodes);
  return kSuccess;
}
EXPORT Result cuGraphNodeGetType(Handle node, int* type) {
  *type = static_cast<FakeNode*>(node)->type;
  return kSuccess;
}
EXPORT Result cuGraphMemAllocNodeGetParams(Handle node, AllocationNode* parameters) {
  *parameters = static_cast<FakeNode*>(node)->allocation;
  return kSuccess;
}
EXPORT Result cuGraphInstantiateWithFlags(Handle* exec, Handle graph, std::uint64_t) {
  std::uint64_t bytes = 0;
  for (const FakeNode* node : static_cast<FakeGraph*>(graph)->nodes)
    bytes += node->allocation.bytes;
  *exec = new FakeExec{bytes};
  return kSuccess;
}
EXPORT Result cuGraphLaunch(Handle exec, Handle) {
  return launch(exec);
}
EXPORT Result cuGraphUpload(Handle exec, Handle) {
  return launch(exec);
}
EXPORT Result cuDeviceGetGraphMemAttribute(Device device, int, void* value) {
  *static_cast<std::uint64_t*>(value) = graph_reserved[device];
  return kSuccess;
}
EXPORT Result cuDeviceGraphMemTrim(Device device) {
  const std::lock_guard lock(mutex);
  used[device] -= graph_reserved[device];
  graph_reserved[device] = 0;
  return kSuccess;
}

}  // namespace mgpu::share
