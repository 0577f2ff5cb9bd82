// A program that uses CUDA, for library_test.cc: share_client CASE. It sees a card with a limit of
// 1,024 MiB, of which a context takes 100. It ends with 0, or prints what was not as expected.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "plugin/share/driver.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kLimit = 1024 * kMiB;
constexpr std::uint64_t kRoom = kLimit - 100 * kMiB;

void* library = nullptr;

void expect(bool holds, const char* what, int line) {
  if (holds) return;
  std::printf("line %d: expected %s\n", line, what);
  std::exit(1);
}
// The stand-in of the driver, which only the library under test has loaded.
void* stand_in() {
  static void* const found = dlopen("libmgpu-cuda-driver.so", RTLD_NOW | RTLD_NOLOAD);
  expect(found != nullptr, "the stand-in is loaded", __LINE__);
  return found;
}
#define EXPECT(what) expect(what, #what, __LINE__)
// A function of the library by name, as programs find it.
#define CU(name) (reinterpret_cast<decltype(&name)>(dlsym(library, #name)))
// What the stand-in has besides the functions of a driver.
#define EXTRA(name, type) (reinterpret_cast<type>(dlsym(stand_in(), #name)))

std::uint64_t used(int card) {
  return EXTRA(fake_used, std::uint64_t(*)(int))(card);
}

std::uint64_t peak(int card) {
  return EXTRA(fake_peak, std::uint64_t(*)(int))(card);
}

std::uint64_t free_now() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT(CU(cuMemGetInfo_v2)(&free, &total) == kSuccess);
  EXPECT(total == kLimit);
  return free;
}

void start() {
  EXPECT(CU(cuInit)(0) == kSuccess);
  Handle context = nullptr;
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSuccess);
}

Address allocated(std::uint64_t bytes) {
  Address address = 0;
  EXPECT(CU(cuMemAlloc_v2)(&address, bytes) == kSuccess);
  return address;
}

bool fits(std::uint64_t bytes) {
  Address address = 0;
  if (CU(cuMemAlloc_v2)(&address, bytes) != kSuccess) return false;
  return CU(cuMemFree_v2)(address) == kSuccess;
}

void see_the_share() {
  start();
  std::size_t total = 0;
  EXPECT(CU(cuDeviceTotalMem_v2)(&total, 0) == kSuccess);
  EXPECT(total == kLimit);
  EXPECT(free_now() == kRoom);
  allocated(100 * kMiB);
  EXPECT(free_now() == kRoom - 100 * kMiB);
}

void linear() {
  start();
  Address address = 0;
  EXPECT(CU(cuMemAlloc_v2)(&address, kRoom + 1) == kOutOfMemory);
  EXPECT(CU(cuMemAlloc_v2)(&address, ~std::size_t{0}) == kOutOfMemory);
  for (int i = 0; i < 50; ++i) EXPECT(fits(kRoom));
  EXPECT(CU(cuMemAlloc_v2)(&address, 0) == 1);
  EXPECT(CU(cuMemFree_v2)(12345) == 1);
  EXPECT(CU(cuMemFree_v2)(0) == kSuccess);
  address = allocated(3 * kMiB);
  EXPECT(used(0) == kLimit - free_now());
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(free_now() == kRoom);
}

void small_pieces() {
  start();
  // Nothing is known at address 0, however often it is freed.
  for (int i = 0; i < 1000; ++i) EXPECT(CU(cuMemFree_v2)(0) == kSuccess);
  std::vector<Address> pieces;
  Address address = 0;
  while (CU(cuMemAlloc_v2)(&address, 4096) == kSuccess) {
    pieces.push_back(address);
    EXPECT(pieces.size() < 1000000);
  }
  EXPECT(pieces.size() >= (kRoom - 2 * kMiB) / 4096);
  EXPECT(used(0) == kLimit - free_now() && free_now() <= 2 * kMiB);
  for (const Address piece : pieces) EXPECT(CU(cuMemFree_v2)(piece) == kSuccess);
  EXPECT(free_now() == kRoom);
  // Two of 700 KiB share a chunk.
  for (int i = 0; i < 3; ++i) allocated(700 << 10);
  EXPECT(free_now() == kRoom - 4 * kMiB);
}

void other_allocations() {
  start();
  Address address = 0;
  std::size_t pitch = 0;
  EXPECT(CU(cuMemAllocPitch_v2)(&address, &pitch, 1000, 1 << 20, 4) == kOutOfMemory);
  EXPECT(CU(cuMemAllocPitch_v2)(&address, &pitch, 1000, 1000, 4) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  Handle array = nullptr;
  const ArrayDescriptor<std::size_t> large{20000, 20000, 0x20, 4};
  EXPECT(CU(cuArrayCreate_v2)(&array, &large) == kOutOfMemory);
  const Array3dDescriptor<std::size_t> volume{100, 100, 100, 0x20, 1, 0};
  EXPECT(CU(cuArray3DCreate_v2)(&array, &volume) == kSuccess);
  EXPECT(free_now() == kRoom - 6 * kMiB);
  EXPECT(CU(cuArrayDestroy)(array) == kSuccess);
  const Array3dDescriptor<std::size_t> levels{1024, 1024, 0, 0x20, 1, 0};
  EXPECT(CU(cuMipmappedArrayCreate)(&array, &levels, 11) == kSuccess);
  EXPECT(free_now() == kRoom - 6 * kMiB);
  EXPECT(CU(cuMipmappedArrayDestroy)(array) == kSuccess);
  EXPECT(free_now() == kRoom);
  // What managed memory gives back stays with the driver, up to 128 MiB, and is used again.
  EXPECT(CU(cuMemAllocManaged)(&address, kRoom + 1, 1) == kOutOfMemory);
  EXPECT(CU(cuMemAllocManaged)(&address, ~std::size_t{0}, 1) == kOutOfMemory);
  EXPECT(CU(cuMemAllocManaged)(&address, 20 * kMiB, 1) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(free_now() == kRoom - 20 * kMiB);
  for (int i = 0; i < 3; ++i) {
    EXPECT(CU(cuMemAllocManaged)(&address, kRoom, 1) == kSuccess);
    EXPECT(free_now() == 0);
    EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
    EXPECT(free_now() == kRoom - 128 * kMiB);
    EXPECT(used(0) <= kLimit - free_now() && used(0) + 2 * kMiB >= kLimit - free_now());
  }
  EXPECT(peak(0) <= kLimit);
}

void virtual_memory() {
  start();
  const AllocationProperties first{1, 0, {kDeviceLocation, 0}, nullptr, {}};
  const AllocationProperties second{1, 0, {kDeviceLocation, 1}, nullptr, {}};
  Address handle = 0;
  EXPECT(CU(cuMemCreate)(&handle, kRoom + 2 * kMiB, &first, 0) == kOutOfMemory);
  EXPECT(CU(cuMemCreate)(&handle, kMiB, &first, 0) == 1);
  EXPECT(CU(cuMemCreate)(&handle, 512 * kMiB, &first, 0) == kSuccess);
  constexpr Address kAt = Address{1} << 40U;
  EXPECT(CU(cuMemMap)(kAt, 512 * kMiB, 0, handle, 0) == kSuccess);
  EXPECT(CU(cuMemRelease)(handle) == kSuccess);
  EXPECT(free_now() == kRoom - 512 * kMiB);  // the mapping holds it
  EXPECT(CU(cuMemRetainAllocationHandle)(&handle, reinterpret_cast<void*>(kAt + kMiB)) == kSuccess);
  EXPECT(CU(cuMemUnmap)(kAt, 512 * kMiB) == kSuccess);
  EXPECT(free_now() == kRoom - 512 * kMiB);  // the handle holds it
  EXPECT(CU(cuMemRelease)(handle) == kSuccess);
  EXPECT(free_now() == kRoom);
  // It counts for its card, and not for that of the current context.
  EXPECT(CU(cuMemCreate)(&handle, 1000 * kMiB, &second, 0) == kSuccess);
  EXPECT(free_now() == kRoom);
  Address more = 0;
  EXPECT(CU(cuMemCreate)(&more, 100 * kMiB, &second, 0) == kOutOfMemory);
  // What is imported counts when it is mapped, and a newer kind of place is refused.
  EXPECT(CU(cuMemMap)(kAt, 2000 * kMiB, 0, 12345, 0) == kOutOfMemory);
  const AllocationProperties newer{1, 0, {6, 0}, nullptr, {}};
  EXPECT(CU(cuMemCreate)(&more, 2 * kMiB, &newer, 0) == 801);
  // A range of several mappings.
  Address handles[4];
  for (int i = 0; i < 4; ++i) {
    EXPECT(CU(cuMemCreate)(&handles[i], 200 * kMiB, &first, 0) == kSuccess);
    EXPECT(CU(cuMemMap)(kAt + static_cast<Address>(i) * 200 * kMiB, 200 * kMiB, 0, handles[i], 0) ==
           kSuccess);
    EXPECT(CU(cuMemRelease)(handles[i]) == kSuccess);
  }
  EXPECT(free_now() == kRoom - 800 * kMiB);
  EXPECT(CU(cuMemUnmap)(kAt, 800 * kMiB) == kSuccess);
  EXPECT(free_now() == kRoom);
  EXPECT(peak(0) <= kLimit && peak(1) <= kLimit);
}

// Memory that arrays and multicast objects refer to is there after it was released.
void held_elsewhere() {
  start();
  const AllocationProperties first{1, 0, {kDeviceLocation, 0}, nullptr, {}};
  const auto created = [&](std::uint64_t bytes) {
    Address handle = 0;
    EXPECT(CU(cuMemCreate)(&handle, bytes, &first, 0) == kSuccess);
    return handle;
  };
  const Address handle = created(200 * kMiB);
  ArrayMapping tiles[2]{};
  tiles[0].operation = tiles[1].operation = 1;
  tiles[1].handle = handle;
  EXPECT(CU(cuMemMapArrayAsync)(tiles, 2, nullptr) == kSuccess);
  EXPECT(CU(cuMemRelease)(handle) == kSuccess);
  EXPECT(free_now() == kRoom - 200 * kMiB);
  const Address bound = created(100 * kMiB);
  EXPECT(CU(cuMulticastBindMem)(0, 0, bound, 0, 100 * kMiB, 0) == 1);  // no object
  EXPECT(CU(cuMemRelease)(bound) == kSuccess);
  EXPECT(free_now() == kRoom - 200 * kMiB);
  const Address again = created(100 * kMiB);
  EXPECT(CU(cuMulticastBindMem)(1, 0, again, 0, 100 * kMiB, 0) == kSuccess);
  EXPECT(CU(cuMemRelease)(again) == kSuccess);
  const Address linear = allocated(50 * kMiB);
  EXPECT(CU(cuMulticastBindAddr)(1, 0, linear + 2 * kMiB, 2 * kMiB, 0) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(linear) == kSuccess);
  EXPECT(free_now() == kRoom - 350 * kMiB);
  EXPECT(used(0) == kLimit - free_now());
  // Memory that is not known is not bound.
  tiles[1].handle = 12345;
  EXPECT(CU(cuMemMapArrayAsync)(tiles, 2, nullptr) == kNotSupported);
  EXPECT(CU(cuMulticastBindMem)(1, 0, 12345, 0, kMiB, 0) == kNotSupported);
}

void exported() {
  start();
  const AllocationProperties first{1, 1, {kDeviceLocation, 0}, nullptr, {}};
  Address handle = 0;
  int file = 0;
  EXPECT(CU(cuMemCreate)(&handle, 200 * kMiB, &first, 0) == kSuccess);
  EXPECT(CU(cuMemExportToShareableHandle)(&file, handle, 1, 0) == kSuccess);
  EXPECT(CU(cuMemRelease)(handle) == kSuccess);
  EXPECT(free_now() == kRoom - 200 * kMiB);
  EXPECT(used(0) == kLimit - free_now());
}

struct Image {  // as the stand-in has it
  std::uint64_t variables;
  int local;
};

void modules() {
  start();
  const Image large{500 * kMiB, 0};
  const Image small{10 * kMiB, 0};
  Handle module = nullptr;
  Handle second = nullptr;
  EXPECT(CU(cuModuleLoadData)(&module, &large) == kSuccess);
  EXPECT(free_now() == kRoom - 500 * kMiB);
  EXPECT(CU(cuModuleLoadData)(&second, &large) == kOutOfMemory && second == nullptr);
  EXPECT(free_now() == kRoom - 500 * kMiB && used(0) == kLimit - free_now());
  EXPECT(!fits(500 * kMiB));
  EXPECT(CU(cuModuleUnload)(module) == kSuccess);
  EXPECT(free_now() == kRoom);
  // A library is loaded when it is used, at the latest when a kernel of it is looked up.
  Handle lib = nullptr;
  EXPECT(CU(cuLibraryLoadData)(&lib, &large, nullptr, nullptr, 0, nullptr, nullptr, 0) == kSuccess);
  EXPECT(free_now() == kRoom);
  EXPECT(CU(cuLibraryGetKernel)(&second, lib, "k") == kSuccess);
  EXPECT(free_now() == kRoom - 500 * kMiB);
  EXPECT(CU(cuLibraryUnload)(lib) == kSuccess);
  EXPECT(CU(cuLibraryLoadData)(&lib, &small, nullptr, nullptr, 0, nullptr, nullptr, 0) == kSuccess);
  Address address = 0;
  std::size_t bytes = 0;
  EXPECT(CU(cuLibraryGetGlobal)(&address, &bytes, lib, "x") == kSuccess);
  EXPECT(free_now() == kRoom - 10 * kMiB);
  // What is managed, or kept by a file, hides nothing: NVML does not show it.
  EXPECT(CU(cuMemAllocManaged)(&address, 400 * kMiB, 1) == kSuccess);
  EXPECT(CU(cuModuleLoadData)(&module, &large) == kSuccess);
  EXPECT(free_now() == kRoom - 910 * kMiB && used(0) == kLimit - free_now());
  EXPECT(CU(cuModuleUnload)(module) == kSuccess);
  EXPECT(free_now() == kRoom - 410 * kMiB);
}

// A library that does not fit stays when it has been used, and counts.
void libraries_that_stay() {
  start();
  const Image large{500 * kMiB, 0};
  Handle kernel = nullptr;
  for (const Result expected : {kSuccess, kOutOfMemory}) {
    Handle lib = nullptr;
    EXPECT(CU(cuLibraryLoadData)(&lib, &large, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
           kSuccess);
    EXPECT(CU(cuLibraryGetKernel)(&kernel, lib, "k") == expected);
  }
  EXPECT(free_now() == 0 && !fits(2 * kMiB));
  EXPECT(CU(cuLibraryUnload)(kernel) == kSuccess);  // the stand-in's kernel is its library
  EXPECT(free_now() == kRoom - 500 * kMiB);
}

// NVML is not asked where it lists process IDs of the node.
void other_process_ids() {
  EXTRA(fake_list_others, void (*)())();
  start();
  EXPECT(free_now() == kRoom && fits(kRoom));
  const Image image{500 * kMiB, 0};
  Handle module = nullptr;
  EXPECT(CU(cuModuleLoadData)(&module, &image) == kSuccess);
  EXPECT(free_now() == kRoom);
}

void streams() {
  start();
  Handle stream = nullptr;
  for (int i = 0; i < 50; ++i) EXPECT(CU(cuStreamCreate)(&stream, 0) == kSuccess);
  EXPECT(free_now() == kRoom - 100 * kMiB);
  allocated(kRoom - 100 * kMiB);
  EXPECT(CU(cuStreamCreate)(&stream, 0) == kOutOfMemory);
  EXPECT(used(0) == kLimit);
}

using Launch = Result (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, Handle, void**, void**);

// A launch takes memory for all threads that the card can have.
void local_memory() {
  start();
  const Image little{0, 1000};
  const Image much{0, 1024 + 32 * 1024};
  const Image too_much{0, 1024 + 100 * 1024};
  Handle module = nullptr;
  Handle function = nullptr;
  Handle context = nullptr;
  EXPECT(CU(cuModuleLoadData)(&module, &little) == kSuccess);
  EXPECT(CU(cuModuleGetFunction)(&function, module, "k") == kSuccess);
  EXPECT(free_now() == kRoom);
  EXPECT(CU(cuModuleLoadData)(&module, &too_much) == kSuccess);
  EXPECT(CU(cuModuleGetFunction)(&function, module, "k") == kOutOfMemory);
  EXPECT(free_now() == kRoom);
  Handle lib = nullptr;
  EXPECT(CU(cuLibraryLoadData)(&lib, &much, nullptr, nullptr, 0, nullptr, nullptr, 0) == kSuccess);
  EXPECT(CU(cuLibraryGetKernel)(&function, lib, "k") == kSuccess);
  EXPECT(free_now() == kRoom - 320 * kMiB);
  EXPECT(EXTRA(cuLaunchKernel, Launch)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
         kSuccess);
  EXPECT(used(0) == kLimit - free_now());
  // It may be launched in each context.
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSuccess);
  EXPECT(free_now() == kRoom - 740 * kMiB);
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kOutOfMemory);
}

// It goes to the card that uses it.
void managed_on_two_cards() {
  start();
  Address address = 0;
  EXPECT(CU(cuMemAllocManaged)(&address, 700 * kMiB, 1) == kSuccess);
  Handle context = nullptr;
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 1) == kSuccess);
  EXPECT(free_now() == kRoom - 700 * kMiB);
  EXPECT(!fits(300 * kMiB));
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(free_now() == kRoom - 128 * kMiB);
  // Neither may a checkpoint move all memory to another card.
  void* pairs[8] = {&context};
  EXPECT(CU(cuCheckpointProcessRestore)(getpid(), pairs) == kNotSupported);
  allocated(500 * kMiB);
  Handle of_first = nullptr;
  EXPECT(CU(cuCtxCreate_v2)(&of_first, 0, 0) == kSuccess);
  EXPECT(CU(cuMemAllocManaged)(&address, 500 * kMiB, 1) == kOutOfMemory);
  EXPECT(free_now() == kRoom - 228 * kMiB);  // nothing more on the card where it fits
}

void pools() {
  start();
  Address address = 0;
  Address other = 0;
  EXPECT(CU(cuMemAllocAsync)(&address, kRoom + 1, nullptr) == kOutOfMemory);
  EXPECT(CU(cuMemAllocAsync)(&address, 1, nullptr) == kSuccess);
  EXPECT(free_now() == kRoom - 32 * kMiB);
  EXPECT(CU(cuMemAllocAsync_ptsz)(&other, 800 * kMiB, nullptr) == kSuccess);
  EXPECT(used(0) == kLimit - free_now());
  EXPECT(CU(cuMemFree_v2)(other) == kSuccess);
  // Memory that is not of a pool.
  const Address linear = allocated(50 * kMiB);
  const std::uint64_t before = free_now();
  EXPECT(CU(cuMemFreeAsync)(linear, nullptr) == kSuccess);
  EXPECT(free_now() == before + 50 * kMiB);
  // What the pool does not use is taken back for others.
  EXPECT(fits(800 * kMiB));
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(CU(cuStreamSynchronize)(nullptr) == kSuccess);
  EXPECT(free_now() == kRoom);
  Handle pool = nullptr;
  const PoolProperties properties{1, 0, {kDeviceLocation, 0}, nullptr, {}};
  EXPECT(CU(cuMemPoolCreate)(&pool, &properties) == kSuccess);
  EXPECT(CU(cuMemAllocFromPoolAsync)(&address, kRoom + 1, pool, nullptr) == kOutOfMemory);
  EXPECT(CU(cuMemAllocFromPoolAsync)(&address, 640 * kMiB, pool, nullptr) == kSuccess);
  EXPECT(!fits(300 * kMiB));
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(CU(cuMemPoolTrimTo)(pool, 0) == kSuccess);
  EXPECT(free_now() == kRoom);
  EXPECT(CU(cuMemAllocFromPoolAsync)(&address, 640 * kMiB, pool, nullptr) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(CU(cuMemPoolDestroy)(pool) == kSuccess);
  EXPECT(free_now() == kRoom);
  // A pool lives on as long as its memory.
  EXPECT(CU(cuMemPoolCreate)(&pool, &properties) == kSuccess);
  EXPECT(CU(cuMemAllocFromPoolAsync)(&address, 640 * kMiB, pool, nullptr) == kSuccess);
  EXPECT(CU(cuMemPoolDestroy)(pool) == kSuccess);
  EXPECT(free_now() == kRoom - 640 * kMiB && !fits(300 * kMiB));
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(fits(kRoom) && free_now() == kRoom);
  EXPECT(CU(cuMemAllocAsync)(&address, 640 * kMiB, nullptr) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  EXPECT(CU(cuEventSynchronize)(nullptr) == kSuccess);
  EXPECT(free_now() == kRoom);
  // A capture takes nothing.
  EXTRA(fake_capture, void (*)(bool, bool))(true, false);
  EXPECT(CU(cuMemAllocAsync)(&address, 32 * kMiB, nullptr) == kSuccess);
  EXTRA(fake_capture, void (*)(bool, bool))(false, false);
  EXPECT(free_now() == kRoom);
  // A pool in the memory of the host takes nothing of the card.
  const PoolProperties host{1, 0, {2, 0}, nullptr, {}};
  EXPECT(CU(cuMemPoolCreate)(&pool, &host) == kSuccess);
  EXPECT(CU(cuMemAllocFromPoolAsync)(&address, 2 * kLimit, pool, nullptr) == kSuccess);
  EXPECT(free_now() == kRoom);
  EXPECT(peak(0) <= kLimit);
}

// The card of a stream need not be that of the current context.
void pool_of_a_stream() {
  start();
  Handle stream = nullptr;
  Handle context = nullptr;
  EXPECT(CU(cuCtxCreate_v2)(&stream, 0, 1) == kSuccess);
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSuccess);
  Address address = 0;
  EXPECT(CU(cuMemAllocAsync)(&address, kRoom + 1, stream) == kOutOfMemory);
  EXPECT(CU(cuMemAllocAsync)(&address, 640 * kMiB, stream) == kSuccess);
  EXPECT(free_now() == kRoom - 100 * kMiB);
  EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(stream) == kSuccess);
  EXPECT(free_now() == kRoom - 640 * kMiB);
}

// The capture is over before the driver is called.
void capture_that_ends() {
  start();
  Address address = 0;
  EXTRA(fake_capture, void (*)(bool, bool))(true, true);
  EXPECT(CU(cuMemAllocAsync)(&address, 320 * kMiB, nullptr) == kSuccess);
  EXPECT(free_now() == kRoom - 320 * kMiB);
  EXTRA(fake_capture, void (*)(bool, bool))(true, true);
  EXPECT(CU(cuMemAllocAsync)(&address, 2 * kLimit, nullptr) == kOutOfMemory);
  // The account is over the limit now, and one that goes on takes nothing.
  EXTRA(fake_capture, void (*)(bool, bool))(true, false);
  EXPECT(CU(cuMemAllocAsync)(&address, 320 * kMiB, nullptr) == kSuccess);
  EXTRA(fake_capture, void (*)(bool, bool))(false, false);
  EXPECT(CU(cuStreamSynchronize)(nullptr) == kSuccess);
  EXPECT(used(0) == 420 * kMiB && free_now() == kLimit - used(0));
}

using AddNode = Result (*)(Handle*, Handle, const Handle*, std::size_t, AllocationNode*);

Handle graph_of(std::uint64_t bytes) {
  Handle graph = nullptr;
  Handle node = nullptr;
  Handle exec = nullptr;
  AllocationNode allocation{};
  allocation.pool.location = {kDeviceLocation, 0};
  allocation.bytes = bytes;
  EXPECT(EXTRA(cuGraphCreate, Result(*)(Handle*, unsigned))(&graph, 0) == kSuccess);
  EXPECT(EXTRA(cuGraphAddMemAllocNode, AddNode)(&node, graph, nullptr, 0, &allocation) == kSuccess);
  EXPECT(CU(cuGraphInstantiateWithFlags)(&exec, graph, 0) == kSuccess);
  return exec;
}

void graphs() {
  start();
  const Handle small = graph_of(512 * kMiB);
  const Handle large = graph_of(kRoom + 32 * kMiB);
  EXPECT(free_now() == kRoom);
  EXPECT(CU(cuGraphLaunch)(large, nullptr) == kOutOfMemory);
  EXPECT(free_now() == kRoom);  // it did not reach the driver
  for (int i = 0; i < 3; ++i) EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  EXPECT(free_now() == kRoom - 512 * kMiB);
  EXPECT(CU(cuGraphUpload)(small, nullptr) == kSuccess);
  EXPECT(fits(800 * kMiB));  // what graphs do not use is trimmed
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  EXPECT(CU(cuDeviceGraphMemTrim)(0) == kSuccess);
  EXPECT(free_now() == kRoom);
  // One that was never launched has taken nothing.
  EXPECT(CU(cuGraphExecDestroy)(graph_of(900 * kMiB)) == 801);
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  const Address beside = allocated(400 * kMiB);
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(beside) == kSuccess);
  // A second graph may need memory of its own, even after both have shared some.
  const Handle second = graph_of(512 * kMiB);
  EXPECT(CU(cuGraphLaunch)(second, nullptr) == kSuccess);
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  const Address little = allocated(100 * kMiB);
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(little) == kSuccess);
  EXPECT(CU(cuGraphExecDestroy)(second) == 801);
  EXPECT(CU(cuDeviceGraphMemTrim)(0) == kSuccess);
  const Address held = allocated(600 * kMiB);
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kOutOfMemory);
  EXPECT(CU(cuMemFree_v2)(held) == kSuccess);
  EXPECT(CU(cuGraphLaunch)(small, nullptr) == kSuccess);
  EXPECT(CU(cuGraphExecDestroy)(small) == 801);
  EXPECT(peak(0) <= kLimit);
}

Handle current_context = nullptr;
int callbacks = 0;

// Allocates and frees at random in several ways, and frees all in the end.
void* churn(void* seed) {
  EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(current_context) == kSuccess);
  auto random = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(seed));
  const AllocationProperties first{1, 0, {kDeviceLocation, 0}, nullptr, {}};
  std::vector<std::pair<Address, Result (*)(Address)>> held;
  const auto free_one = [&](std::size_t at) {
    EXPECT(held[at].second(held[at].first) == kSuccess);
    held[at] = held.back();
    held.pop_back();
  };
  for (int turn = 0; turn < 5000; ++turn) {
    random = random * 1103515245 + 12345;
    const unsigned choice = random >> 16U;
    if (!held.empty() && choice % 2 == 0) {
      free_one(choice / 2 % held.size());
      continue;
    }
    Address address = 0;
    const std::uint64_t bytes = std::uint64_t{2} << (11 + choice / 8 % 17);
    const bool created = choice / 2 % 4 == 3;
    const Result result =
        created ? CU(cuMemCreate)(&address, (bytes + 2 * kMiB) & ~(2 * kMiB - 1), &first, 0)
        : choice / 2 % 4 == 2 ? CU(cuMemAllocAsync)(&address, bytes, nullptr)
                              : CU(cuMemAlloc_v2)(&address, bytes);
    EXPECT(result == kSuccess || result == kOutOfMemory);
    if (result == kSuccess)
      held.emplace_back(address, created ? CU(cuMemRelease) : CU(cuMemFree_v2));
    if (choice % 32 == 1) EXPECT(CU(cuStreamSynchronize)(nullptr) == kSuccess);
    if (choice % 64 == 3) free_now();
  }
  while (!held.empty()) free_one(0);
  EXPECT(CU(cuStreamSynchronize)(nullptr) == kSuccess);
  return nullptr;
}

void threads() {
  start();
  EXPECT(CU(cuCtxGetCurrent)(&current_context) == kSuccess);
  pthread_t running[6];
  for (std::uintptr_t i = 0; i < 6; ++i) {
    EXPECT(pthread_create(&running[i], nullptr, &churn, reinterpret_cast<void*>(i + 1)) == 0);
  }
  for (const pthread_t thread : running) EXPECT(pthread_join(thread, nullptr) == 0);
  EXPECT(free_now() == kRoom && used(0) == kLimit - kRoom);
  EXPECT(peak(0) <= kLimit);
}

// What a tool may call from within the driver, or a thread for which the driver waits.
void ask_and_allocate() {
  ++callbacks;
  EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(current_context) == kSuccess);
  free_now();
  EXPECT(fits(2 * kMiB));
  Address address = 0;
  EXPECT(CU(cuMemAllocAsync)(&address, kMiB, nullptr) == kSuccess);
  EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
  Handle context = nullptr;
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 1) == kSuccess);
  EXPECT(CU(cuCtxDestroy_v2)(context) == kSuccess);
  EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(current_context) == kSuccess);
}

void in_another_thread() {
  pthread_t thread{};
  EXPECT(pthread_create(
             &thread, nullptr,
             [](void*) -> void* {
               ask_and_allocate();
               return nullptr;
             },
             nullptr) == 0);
  EXPECT(pthread_join(thread, nullptr) == 0);
}

void callbacks_and_waits() {
  start();
  EXPECT(CU(cuDevicePrimaryCtxRetain)(&current_context, 0) == kSuccess);
  EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(current_context) == kSuccess);
  const Handle graph = graph_of(64 * kMiB);
  const std::uint64_t before = free_now();
  for (void (*const callback)() : {&ask_and_allocate, &in_another_thread}) {
    EXTRA(fake_callback, void (*)(void (*)()))(callback);
    Address address = 0;
    EXPECT(CU(cuMemAllocAsync)(&address, kMiB, nullptr) == kSuccess);
    EXPECT(CU(cuMemFree_v2)(address) == kSuccess);
    EXPECT(CU(cuGraphLaunch)(graph, nullptr) == kSuccess);
    Handle context = nullptr;
    EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSuccess);
    allocated(20 * kMiB);
    EXPECT(CU(cuCtxDestroy_v2)(context) == kSuccess);
    EXTRA(fake_callback, void (*)(void (*)()))(nullptr);
    EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(current_context) == kSuccess);
    EXPECT(CU(cuStreamSynchronize)(nullptr) == kSuccess);
    EXPECT(CU(cuDeviceGraphMemTrim)(0) == kSuccess);
    EXPECT(free_now() == before);
    EXPECT(used(0) == kLimit - before);
  }
  EXPECT(callbacks == 6);
}

void contexts() {
  start();
  Handle context = nullptr;
  Handle primary = nullptr;
  EXPECT(CU(cuCtxCreate_v4)(&context, nullptr, 0, 0) == kSuccess);
  EXPECT(free_now() == kRoom - 100 * kMiB);
  allocated(10 * kMiB);
  allocated(1000);
  EXPECT(CU(cuCtxDestroy_v2)(context) == kSuccess);
  for (int i = 0; i < 3; ++i) EXPECT(CU(cuDevicePrimaryCtxRetain)(&primary, 0) == kSuccess);
  EXPECT(EXTRA(cuCtxSetCurrent, Result(*)(Handle))(primary) == kSuccess);
  EXPECT(free_now() == kRoom - 100 * kMiB);
  // 10 multiprocessors with 1,024 threads.
  EXPECT(CU(cuCtxSetLimit)(kStackSize, 1024 + 64 * 1024) == kSuccess);
  EXPECT(free_now() == kRoom - 100 * kMiB - 640 * kMiB);
  EXPECT(CU(cuCtxSetLimit)(kStackSize, 1024 + 128 * 1024) == kOutOfMemory);
  EXPECT(CU(cuCtxSetLimit)(kHeapSize, 2000 * kMiB) == kOutOfMemory);
  // It counts as the largest that it was.
  for (int i = 0; i < 3; ++i) EXPECT(CU(cuCtxSetLimit)(kHeapSize, 8 * kMiB) == kSuccess);
  const std::uint64_t before_heap = free_now();
  for (int i = 0; i < 3; ++i) {
    EXPECT(CU(cuCtxSetLimit)(kHeapSize, 48 * kMiB) == kSuccess);
    EXPECT(CU(cuCtxSetLimit)(kHeapSize, 8 * kMiB) == kSuccess);
  }
  EXPECT(before_heap - free_now() <= 48 * kMiB);
  const std::uint64_t with_heap = free_now();
  for (int i = 0; i < 2; ++i) EXPECT(CU(cuDevicePrimaryCtxRelease_v2)(0) == kSuccess);
  EXPECT(free_now() == with_heap);  // it is still retained
  EXPECT(CU(cuDevicePrimaryCtxRelease_v2)(0) == kSuccess);
  for (int i = 0; i < 8; ++i) EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSuccess);
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSuccess);
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kOutOfMemory);
}

// Runs `part` in a process of its own, which ends with `wanted`.
template <class Part>
void in_child(Part part, bool killed) {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    part();
    const ssize_t written = write(ends[1], "r", 1);
    if (killed) pause();
    _exit(written == 1 ? 0 : 1);
  }
  close(ends[1]);
  char byte = 0;
  EXPECT(read(ends[0], &byte, 1) == 1);
  if (killed) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(killed ? WIFSIGNALED(status) : status == 0);
  close(ends[0]);
}

void processes() {
  // CUDA is not used before the fork.
  for (int i = 0; i < 3; ++i)
    in_child(
        [] {
          start();
          allocated(800 * kMiB);
        },
        true);
  start();
  EXPECT(fits(kRoom));
  allocated(500 * kMiB);
  const pid_t child = fork();
  if (child == 0) execl("/proc/self/exe", "share_client", "second", nullptr);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(status == 0);
  in_child(
      [] {
        Address a = 0;
        EXPECT(CU(cuInit)(0) == kNotInitialized);
        EXPECT(CU(cuMemAlloc_v2)(&a, kMiB) != kSuccess);
      },
      false);
  EXPECT(free_now() == kRoom - 500 * kMiB);
}

// Beside a process that holds 600 MiB with its context.
void second() {
  start();
  EXPECT(!fits(400 * kMiB));
  EXPECT(fits(324 * kMiB));
}

void names() {
  start();
  Address address = 0;
  void* found = nullptr;
  int status = 0;
  for (const auto& [name, symbol] : std::vector<std::pair<const char*, const char*>>{
           {"cuMemAlloc", "cuMemAlloc_v2"},
           {"cuMemCreate", "cuMemCreate"},
           {"cuCtxCreate", "cuCtxCreate_v4"},
           {"cuGetProcAddress", "cuGetProcAddress_v2"}}) {
    EXPECT(CU(cuGetProcAddress_v2)(name, &found, 12000, 0, &status) == kSuccess);
    EXPECT(found == dlsym(library, symbol));
    EXPECT(CU(cuGetProcAddress)(name, &found, 12000, 0) == kSuccess);
    EXPECT(found == dlsym(library, symbol));
  }
  EXPECT(CU(cuGetProcAddress_v2)("cuDeviceGetName", &found, 12000, 0, &status) == kSuccess);
  EXPECT(found != nullptr);
  EXPECT(CU(cuGetProcAddress_v2)("cuNoSuch", &found, 12000, 0, &status) == kSuccess);
  EXPECT(found == nullptr && status == 1);
  // A version that this library does not know.
  EXPECT(CU(cuGetProcAddress_v2)("cuMemAlloc", &found, 99000, 0, &status) == kSuccess);
  EXPECT(found == nullptr && status == 1);
  EXPECT(CU(cuGetProcAddress)("cuMemAlloc", &found, 99000, 0) == kNotFound);
  EXPECT(dlsym(library, "cuMemAlloc_v99") == nullptr);
  // By path, and in a scope of its own.
  void* const by_name = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  EXPECT(dlsym(by_name, "cuMemAlloc_v2") == dlsym(library, "cuMemAlloc_v2"));
  EXPECT(CU(cuMemAlloc_v2)(&address, kLimit) == kOutOfMemory);
}

void refused() {
  EXPECT(CU(cuInit)(0) == kSystemNotReady);
  Handle context = nullptr;
  EXPECT(CU(cuCtxCreate_v2)(&context, 0, 0) == kSystemNotReady);
  EXPECT(CU(cuDevicePrimaryCtxRetain)(&context, 0) == kSystemNotReady);
}

struct Case {
  const char* name;
  void (*run)();
};
const Case kCases[] = {{"see_the_share", see_the_share},
                       {"linear", linear},
                       {"small_pieces", small_pieces},
                       {"other_allocations", other_allocations},
                       {"virtual_memory", virtual_memory},
                       {"held_elsewhere", held_elsewhere},
                       {"exported", exported},
                       {"modules", modules},
                       {"streams", streams},
                       {"libraries_that_stay", libraries_that_stay},
                       {"other_process_ids", other_process_ids},
                       {"local_memory", local_memory},
                       {"managed_on_two_cards", managed_on_two_cards},
                       {"pools", pools},
                       {"pool_of_a_stream", pool_of_a_stream},
                       {"capture_that_ends", capture_that_ends},
                       {"callbacks_and_waits", callbacks_and_waits},
                       {"threads", threads},
                       {"graphs", graphs},
                       {"contexts", contexts},
                       {"processes", processes},
                       {"second", second},
                       {"names", names},
                       {"refused", refused}};

}  // namespace
}  // namespace mgpu::share

int main(int count, char** words) {
  using namespace mgpu::share;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  for (const Case& one : kCases) {
    if (count == 2 && std::strcmp(words[1], one.name) == 0) {
      one.run();
      return 0;
    }
  }
  std::printf("no such case\n");
  return 1;
}
