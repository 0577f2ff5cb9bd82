// Programs that try to have more memory of a card than their limit.
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "test/gpu/kit/program.h"
#include "test/gpu/passed_file.h"

namespace mgpu::fake_gpu::kit {
namespace {

using std::size_t;
using std::uint64_t;

// Linear memory by a function that was found in some other way.
void linear_by(void* function) {
  if (function == nullptr) {
    said += "not found; ";
    return;
  }
  auto* const allocate = reinterpret_cast<int (*)(Pointer*, size_t)>(function);
  until_refused(kPiece, [&] {
    Pointer at = 0;
    return allocate(&at, kPiece);
  });
}

// --- allocators ----------------------------------------------------------------------------------

void linear_attack() {
  start();
  fill();
}

void pieces_of(uint64_t bytes) {
  start();
  until_refused(bytes, [=] { return linear(bytes); });
}

void one_large() {
  start();
  until_refused(2 * limit, [] { return linear(2 * limit); });
  until_refused(limit + kMiB, [] { return linear(limit + kMiB); });
}

// Beside what fills most of the share at once.
void rain() {
  start();
  linear(limit - 560 * kMiB);
  uint64_t pieces = 0;
  until_refused(4096, [&] { return ++pieces <= 15'000 ? linear(4096) : -1; });
}

void pieces_of_700_kib() {
  pieces_of(700 << 10);
}

void odd_pieces() {
  start();
  const uint64_t sizes[] = {513, 5000, 70'000, 300'000, 600'000, 1'100'000, 2'200'000};
  size_t turn = 0;
  // Two thirds of a million bytes are the mean.
  until_refused(600'000, [&] { return linear(sizes[++turn % std::size(sizes)]); });
}

// Keeps one piece of each chunk and frees the others, and begins again with larger ones.
void holes() {
  start();
  for (const uint64_t piece : {uint64_t{16} << 10U, uint64_t{256} << 10U}) {
    std::vector<Pointer> all;
    Pointer at = 0;
    while (all.size() < limit / 16 / piece && linear(piece, &at) == kSuccess) all.push_back(at);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % (2 * kMiB / piece) != 0) call("cuMemFree_v2", all[i]);
    }
  }
  fill();
}

void pitch() {
  start();
  until_refused(10 * kMiB, [] {
    Pointer at = 0;
    size_t pitch = 0;
    return call("cuMemAllocPitch_v2", &at, &pitch, size_t{1000}, size_t{10240}, 4U);
  });
}

int managed_piece(bool prefetch) {
  Pointer at = 0;
  const int code = call("cuMemAllocManaged", &at, size_t{kPiece}, 1U);
  if (code != kSuccess) return code;
  return prefetch ? call("cuMemPrefetchAsync", at, size_t{kPiece}, 0, Handle{})
                  : call("cuMemsetD8_v2", at, 1, size_t{kPiece});
}

void managed() {
  start();
  until_refused(kPiece, [] { return managed_piece(false); });
}

void managed_prefetched() {
  start();
  until_refused(kPiece, [] { return managed_piece(true); });
}

constexpr int kFloat = 0x20;

void arrays_of(const Shape& shape, uint64_t bytes) {
  start();
  until_refused(bytes, [&] {
    Handle array = nullptr;
    return call("cuArray3DCreate_v2", &array, &shape);
  });
}

void arrays() {
  arrays_of({4096, 4096, 0, kFloat, 1, 0}, kPiece);
}

// They take more than their elements.
void thin_arrays() {
  arrays_of({100'000, 0, 0, kFloat, 1, 0}, 4 * kMiB);
}

void volumes() {
  arrays_of({33, 1000, 33, kFloat, 2, 0}, 9 * kMiB);
}

void mipmaps() {
  start();
  const Shape shape{2048, 2048, 0, kFloat, 1, 0};
  until_refused(22 * kMiB, [&] {
    Handle array = nullptr;
    return call("cuMipmappedArrayCreate", &array, &shape, 12U);
  });
}

// --- virtual memory ------------------------------------------------------------------------------

int create(Pointer* handle, uint64_t bytes, int card = 0, int handle_types = 0) {
  const Properties wanted{.handle_types = handle_types, .location = card};
  return call("cuMemCreate", handle, size_t{bytes}, &wanted, uint64_t{0});
}

Pointer map(Pointer handle, uint64_t bytes) {
  Pointer at = 0;
  NEED(call("cuMemAddressReserve", &at, size_t{bytes}, size_t{0}, Pointer{0}, uint64_t{0}) ==
       kSuccess);
  return call("cuMemMap", at, size_t{bytes}, size_t{0}, handle, uint64_t{0}) == kSuccess ? at : 0;
}

void physical() {
  start();
  until_refused(2 * kMiB, [] {
    Pointer handle = 0;
    return create(&handle, 2 * kMiB);
  });
}

void mapped_and_released() {
  start();
  until_refused(kPiece, [] {
    Pointer handle = 0;
    const int code = create(&handle, kPiece);
    if (code != kSuccess) return code;
    if (map(handle, kPiece) == 0) return kOutOfMemory;
    return call("cuMemRelease", handle);
  });
}

// Whoever counts releases has counted it as free, but there is another reference.
void retained() {
  start();
  until_refused(kPiece, [] {
    Pointer handle = 0;
    Pointer again = 0;
    const int code = create(&handle, kPiece);
    if (code != kSuccess) return code;
    const Pointer at = map(handle, kPiece);
    if (at == 0) return kOutOfMemory;
    call("cuMemRetainAllocationHandle", &again, reinterpret_cast<void*>(at));
    call("cuMemUnmap", at, size_t{kPiece});
    return call("cuMemRelease", handle);
  });
}

void mapped_twice() {
  start();
  until_refused(kPiece, [] {
    Pointer handle = 0;
    const int code = create(&handle, kPiece);
    if (code != kSuccess) return code;
    const Pointer first = map(handle, kPiece);
    if (first == 0 || map(handle, kPiece) == 0) return kOutOfMemory;
    call("cuMemUnmap", first, size_t{kPiece});
    return call("cuMemRelease", handle);
  });
}

void released_too_often() {
  start();
  Pointer handle = 0;
  if (create(&handle, limit / 2) == kSuccess) {
    NEED(map(handle, limit / 2) != 0);
    for (int i = 0; i < 100; ++i) call("cuMemRelease", handle);
  }
  fill();
}

// Counted for the card of the context, and taken of the other one.
void physical_of_the_other_card() {
  start();
  until_refused(kPiece, [] {
    Pointer handle = 0;
    return create(&handle, kPiece, 1);
  });
}

void context_of_the_other_card() {
  start();
  Handle context = nullptr;
  NEED(call("cuCtxCreate_v2", &context, 0U, 1) == kSuccess);
  fill();
}

// --- pools ---------------------------------------------------------------------------------------

void default_pool_by(const char* name) {
  start();
  until_refused(kPiece, [=] {
    Pointer at = 0;
    return call(name, &at, size_t{kPiece}, Handle{});
  });
}

void default_pool() {
  default_pool_by("cuMemAllocAsync");
}

void default_pool_ptsz() {
  default_pool_by("cuMemAllocAsync_ptsz");
}

Handle create_pool(int card = 0) {
  Handle pool = nullptr;
  const Properties wanted{.location = card};
  NEED(call("cuMemPoolCreate", &pool, &wanted) == kSuccess);
  return pool;
}

void explicit_pool_by(const char* name, int card = 0) {
  start();
  Handle const pool = create_pool(card);
  until_refused(kPiece, [=] {
    Pointer at = 0;
    return call(name, &at, size_t{kPiece}, pool, Handle{});
  });
}

void explicit_pool() {
  explicit_pool_by("cuMemAllocFromPoolAsync");
}

void explicit_pool_ptsz() {
  explicit_pool_by("cuMemAllocFromPoolAsync_ptsz");
}

void pool_of_the_other_card() {
  explicit_pool_by("cuMemAllocFromPoolAsync", 1);
}

// It lives as long as its memory.
void destroyed_pools() {
  start();
  until_refused(kPiece, [] {
    Pointer at = 0;
    Handle const pool = create_pool();
    const int code = call("cuMemAllocFromPoolAsync", &at, size_t{kPiece}, pool, Handle{});
    call("cuMemPoolDestroy", pool);
    return code;
  });
}

// What a pool keeps is free for itself only.
void memory_that_a_pool_keeps() {
  start();
  Handle const pool = create_pool();
  uint64_t all = ~uint64_t{0};
  NEED(call("cuMemPoolSetAttribute", pool, 4, &all) == kSuccess);
  std::vector<Pointer> taken;
  until_refused(kPiece, [&] {
    taken.emplace_back();
    return call("cuMemAllocFromPoolAsync", &taken.back(), size_t{kPiece}, pool, Handle{});
  });
  for (const Pointer at : taken) call("cuMemFreeAsync", at, Handle{});
  fill();
}

// Each one takes a whole unit of the driver.
void small_pieces_of_many_pools() {
  start();
  until_refused(32 * kMiB, [] {
    Pointer at = 0;
    return call("cuMemAllocFromPoolAsync", &at, size_t{1000}, create_pool(), Handle{});
  });
}

// --- graphs --------------------------------------------------------------------------------------

Handle captured(uint64_t bytes, bool freed) {
  Handle stream = nullptr;
  Handle graph = nullptr;
  Handle exec = nullptr;
  Pointer at = 0;
  if (call("cuStreamCreate", &stream, 1U) != kSuccess) return nullptr;
  NEED(call("cuStreamBeginCapture_v2", stream, 2) == kSuccess);
  NEED(call("cuMemAllocAsync", &at, size_t{bytes}, stream) == kSuccess);
  if (freed) NEED(call("cuMemFreeAsync", at, stream) == kSuccess);
  NEED(call("cuStreamEndCapture", stream, &graph) == kSuccess);
  NEED(call("cuGraphInstantiateWithFlags", &exec, graph, uint64_t{0}) == kSuccess);
  return exec;
}

void graph_node() {
  start();
  struct {  // CUDA_MEM_ALLOC_NODE_PARAMS
    int kind[4] = {1, 0, 1, 0};
    unsigned char other[72] = {};
    const void* access = nullptr;
    size_t count = 0;
    size_t bytes = kPiece;
    Pointer at = 0;
  } wanted;
  until_refused(kPiece, [&] {
    Handle graph = nullptr;
    Handle node = nullptr;
    Handle exec = nullptr;
    NEED(call("cuGraphCreate", &graph, 0U) == kSuccess);
    NEED(call("cuGraphAddMemAllocNode", &node, graph, Handle{}, size_t{0}, &wanted) == kSuccess);
    NEED(call("cuGraphInstantiateWithFlags", &exec, graph, uint64_t{0}) == kSuccess);
    return call("cuGraphLaunch", exec, Handle{});
  });
}

void graph_by(const char* name, bool freed) {
  start();
  if (freed) {
    Handle const exec = captured(2 * limit, true);
    said += "error " + std::to_string(call(name, exec, Handle{})) + "; ";
    return;
  }
  until_refused(kPiece, [=] { return call(name, captured(kPiece, false), Handle{}); });
}

void captured_graph() {
  graph_by("cuGraphLaunch", true);
}

void captured_graphs_that_keep() {
  graph_by("cuGraphLaunch", false);
}

void graph_ptsz() {
  graph_by("cuGraphLaunch_ptsz", false);
}

void uploaded_graph() {
  graph_by("cuGraphUpload", true);
}

// The driver keeps what its graphs have used until it is trimmed.
void destroyed_graph() {
  start();
  Handle const exec = captured(limit / 2, true);
  call("cuGraphLaunch", exec, Handle{});
  call("cuGraphExecDestroy", exec);
  fill();
}

// What a graph has left is trimmed to make room for one that would have used it.
void graph_after_a_destroyed_one() {
  start();
  Pointer at = 0;
  Handle const first = captured(limit / 4, true);
  NEED(call("cuGraphLaunch", first, Handle{}) == kSuccess);
  NEED(call("cuGraphExecDestroy", first) == kSuccess);
  NEED(create(&at, limit / 4 + limit / 16) == kSuccess);
  Handle const second = captured(limit / 2, true);
  said += "error " + std::to_string(call("cuGraphLaunch", second, Handle{})) + "; ";
}

// --- what no call names --------------------------------------------------------------------------

void contexts() {
  start();
  until_refused(523 * kMiB, [] {
    Handle context = nullptr;
    return call("cuCtxCreate_v2", &context, 0U, 0);
  });
}

// What does not belong to it stays when it ends.
void destroyed_context() {
  start();
  Handle context = nullptr;
  Handle primary = nullptr;
  Pointer at = 0;
  NEED(call("cuCtxGetCurrent", &primary) == kSuccess);
  NEED(call("cuCtxCreate_v2", &context, 0U, 0) == kSuccess);
  NEED(create(&at, limit / 8) == kSuccess);
  NEED(call("cuMemAllocAsync", &at, size_t{limit / 8}, Handle{}) == kSuccess);
  NEED(call("cuCtxDestroy_v2", context) == kSuccess);
  NEED(call("cuCtxSetCurrent", primary) == kSuccess);
  fill();
}

void streams() {
  start();
  uint64_t made = 0;
  until_refused(kMiB / 2, [&] {
    Handle stream = nullptr;
    return ++made <= 8000 ? call("cuStreamCreate", &stream, 1U) : -1;
  });
}

void stack() {
  start();
  said += "error " + std::to_string(call("cuCtxSetLimit", 0, size_t{64} << 10U)) + "; ";
}

void local_memory() {
  start();
  Handle module = nullptr;
  Handle function = nullptr;
  int code = call("cuModuleLoadData", &module,
                  ".version 7.0\n.visible .entry k() { .local .align 4 .b8 a[60000]; ret; }");
  if (code == kSuccess) code = call("cuModuleGetFunction", &function, module, "k");
  if (code == kSuccess) {
    code =
        call("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, Handle{}, Handle{}, Handle{});
  }
  said += "error " + std::to_string(code) + "; ";
}

void globals() {
  start();
  until_refused(kPiece, [] {
    Handle module = nullptr;
    return call("cuModuleLoadData", &module,
                ".version 7.0\n.visible .global .align 4 .b8 g[67108864];\n");
  });
}

// --- accounts ------------------------------------------------------------------------------------

void freed_that_is_unknown() {
  start();
  Pointer at = 0;
  for (int i = 0; i < 1000; ++i) call("cuMemFree_v2", Pointer{0});
  if (linear(limit / 4, &at) == kSuccess) {
    for (int i = 0; i < 100; ++i) call("cuMemFree_v2", at + 4096);
    for (int i = 0; i < 100; ++i) call("cuMemFreeAsync", at + 4096, Handle{});
  }
  fill();
}

void freed_twice() {
  start();
  Pointer at = 0;
  NEED(linear(limit / 4, &at) == kSuccess);
  for (int i = 0; i < 100; ++i) call("cuMemFree_v2", at);
  fill();
}

void freed_in_order() {
  start();
  for (int i = 0; i < 100; ++i) {
    Pointer at = 0;
    if (linear(limit / 4, &at) != kSuccess) break;
    call("cuMemFreeAsync", at, Handle{});
    call("cuMemFreeAsync", at, Handle{});
  }
  fill();
}

void sizes_that_overflow() {
  start();
  for (const uint64_t bytes : {~uint64_t{0}, ~uint64_t{0} - kMiB, uint64_t{1} << 63U}) {
    Pointer at = 0;
    size_t pitch = 0;
    for (int i = 0; i < 100; ++i) {
      linear(bytes);
      call("cuMemAllocPitch_v2", &at, &pitch, size_t{bytes}, size_t{bytes}, 4U);
      create(&at, bytes & ~(2 * kMiB - 1));
    }
  }
  fill();
}

void reset_context() {
  start();
  until_refused(limit / 4, [] {
    Handle context = nullptr;
    linear(limit / 4);
    call("cuDevicePrimaryCtxReset_v2", 0);
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
    return kSuccess;
  });
  fill();
}

void racing_threads() {
  start();
  Handle context = nullptr;
  NEED(call("cuCtxGetCurrent", &context) == kSuccess);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([=] {
      auto* const allocate =
          reinterpret_cast<int (*)(Pointer*, size_t)>(::dlsym(library, "cuMemAlloc_v2"));
      Pointer at = 0;
      reinterpret_cast<int (*)(Handle)>(::dlsym(library, "cuCtxSetCurrent"))(context);
      for (uint64_t taken = 0; taken < limit / 2 && allocate(&at, 4 * kMiB) == kSuccess;) {
        taken += 4 * kMiB;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- processes -----------------------------------------------------------------------------------

void forked() {
  holder(limit / kMiB / 4, Way::fork);
  start();
  fill();
}

void second_by(Way way) {
  start();
  holder(2 * limit / kMiB, way);
  fill();
}

void vforked() {
  second_by(Way::vfork);
}

void spawned() {
  second_by(Way::spawn);
}

void forked_and_executed() {
  second_by(Way::exec_again);
}

// With the system call itself, so that no library learns of it.
void bare_clone() {
  second_by(Way::bare);
}

void empty_environment() {
  second_by(Way::empty_environment);
}

void other_environment() {
  second_by(Way::other_environment);
}

void executed() {
  start();
  linear(limit / 2);
  char program[] = "kit_program";
  char again[] = "linear";
  char* const words[] = {program, again, nullptr};
  ::execv("/proc/self/exe", words);
}

void orphan() {
  if (const pid_t child = ::fork(); child != 0) {
    ::waitpid(child, nullptr, 0);
    if (begin()) fill();
    return;
  }
  ::setsid();
  holder(2 * limit / kMiB, Way::fork);
  ::_exit(0);
}

void many_processes() {
  for (int i = 0; i < 64; ++i) holder(64);
  said.clear();
  if (begin()) fill();
}

void racing_processes() {
  int go[2] = {-1, -1};
  NEED(::pipe(go) == 0);
  int done[2] = {-1, -1};
  NEED(::pipe(done) == 0);
  for (int i = 0; i < 8; ++i) {
    if (::fork() != 0) continue;
    ::close(go[1]);
    ::close(done[0]);
    char byte = 0;
    static_cast<void>(::read(go[0], &byte, 1));
    if (begin()) {
      for (uint64_t taken = 0; taken < limit && linear(2 * kMiB) == kSuccess;) taken += 2 * kMiB;
    }
    ::close(done[1]);
    for (;;) ::pause();
  }
  ::close(go[1]);
  ::close(done[1]);
  char byte = 0;
  static_cast<void>(::read(done[0], &byte, 1));
}

// Those that are killed within a call leave an account that nobody has finished.
void killed_while_allocating() {
  for (int round = 0; round < 20; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      start();
      for (;;) {
        Pointer at = 0;
        if (linear(limit / 4, &at) == kSuccess) call("cuMemFree_v2", at);
      }
    }
    ::usleep(static_cast<unsigned>(3000 + 1700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  start();
  fill();
}

// --- other ways to the functions -----------------------------------------------------------------

void by_path() {
  start(::dlopen(std::getenv("MGPU_KIT_LIBCUDA"), RTLD_NOW));
  fill();
}

void by_another_name() {
  void* const found = ::dlopen("libcuda.so", RTLD_NOW);
  NEED(found != nullptr);
  start(found);
  fill();
}

void by_a_link() {
  NEED(::symlink(std::getenv("MGPU_KIT_LIBCUDA"), "libmine.so") == 0);
  start(::dlopen("./libmine.so", RTLD_NOW));
  fill();
}

void deep_binding() {
  start(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  fill();
}

void own_namespace() {
  void* const found = ::dlmopen(LM_ID_NEWLM, std::getenv("MGPU_KIT_LIBCUDA"), RTLD_NOW);
  NEED(found != nullptr);
  start(found);
  fill();
}

void both_namespaces() {
  own_namespace();
  if (begin(::dlopen("libcuda.so.1", RTLD_NOW))) fill();
}

void global_scope() {
  start(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
  linear_by(::dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
}

// Through libraries that the first one has loaded, in their order.
void each_library_that_is_loaded() {
  start();
  std::vector<void*> found;
  link_map* map = nullptr;
  NEED(::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
  while (map->l_prev != nullptr) map = map->l_prev;
  for (; map != nullptr; map = map->l_next) {
    if (std::strstr(map->l_name, "libcuda") == nullptr) continue;
    void* const handle = ::dlopen(map->l_name, RTLD_NOW | RTLD_NOLOAD);
    if (handle != nullptr) linear_by(::dlsym(handle, "cuMemAlloc_v2"));
  }
}

// --- cuGetProcAddress ----------------------------------------------------------------------------

void linear_by_name(const char* asked, int version, uint64_t flags) {
  start();
  void* found = nullptr;
  int status = 0;
  if (std::strcmp(asked, "cuGetProcAddress") == 0) {
    call(asked, "cuMemAlloc", &found, version, flags);
  } else {
    call(asked, "cuMemAlloc", &found, version, flags, &status);
  }
  linear_by(found);
}

void proc_address() {
  linear_by_name("cuGetProcAddress_v2", 12000, 0);
}

void first_proc_address() {
  linear_by_name("cuGetProcAddress", 11030, 0);
}

void proc_address_legacy_stream() {
  linear_by_name("cuGetProcAddress_v2", 12000, 1);
}

void proc_address_newer() {
  linear_by_name("cuGetProcAddress_v2", 99000, 0);
}

void proc_address_of_itself() {
  start();
  void* ask = nullptr;
  void* found = nullptr;
  int status = 0;
  call("cuGetProcAddress_v2", "cuGetProcAddress", &ask, 12000, uint64_t{0}, &status);
  NEED(ask != nullptr);
  reinterpret_cast<int (*)(const char*, void**, int, uint64_t, int*)>(ask)("cuMemAlloc", &found,
                                                                           12000, 0, &status);
  linear_by(found);
}

void pooled_by_name(uint64_t flags) {
  start();
  void* found = nullptr;
  int status = 0;
  call("cuGetProcAddress_v2", "cuMemAllocAsync", &found, 12000, flags, &status);
  NEED(found != nullptr);
  until_refused(kPiece, [=] {
    Pointer at = 0;
    return reinterpret_cast<int (*)(Pointer*, size_t, Handle)>(found)(&at, kPiece, Handle{});
  });
}

void proc_address_of_a_pool() {
  pooled_by_name(0);
}

void proc_address_of_each_thread() {
  pooled_by_name(2);
}

// --- files and users -----------------------------------------------------------------------------

// All that the library has opened, but not the cards themselves.
void closed_descriptors() {
  start();
  struct stat cards {};
  struct stat other {};
  NEED(::stat(std::getenv("MGPU_FAKE_GPU"), &cards) == 0);
  for (int file = 3; file < 1024; ++file) {
    if (::fstat(file, &other) == 0 && other.st_ino != cards.st_ino) ::close(file);
  }
  fill();
  holder(2 * limit / kMiB);
}

void no_descriptors() {
  start();
  const rlimit none{0, 0};
  NEED(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  fill();
}

void other_user() {
  if (::geteuid() != 0) {
    std::printf("SKIP only root can become another user\n");
    std::exit(0);
  }
  start();
  linear(limit / 4);
  NEED(::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0);
  fill();
  holder(2 * limit / kMiB);
}

void other_user_from_the_start() {
  if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) {
    std::printf("SKIP only root can become another user\n");
    std::exit(0);
  }
  if (::access(std::getenv("MGPU_KIT_LIBCUDA"), R_OK) != 0) {
    std::printf("SKIP the library is in a folder that others may not read\n");
    std::exit(0);
  }
  start();
  fill();
  holder(2 * limit / kMiB);
}

// Where a process has an ID that others have outside.
void own_process_ids() {
  if (::unshare(CLONE_NEWPID) != 0) {
    std::printf("SKIP only root can make a namespace\n");
    std::exit(0);
  }
  holder(limit / kMiB / 4, Way::fork);
  holder(2 * limit / kMiB, Way::spawn);
}

struct Mapping {
  char* begin;
  size_t bytes;
};

// What is mapped, shared and writable, but the cards themselves.
std::vector<Mapping> shared_pages() {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, rights) != 3) continue;
    const bool cards = line.find(std::getenv("MGPU_FAKE_GPU")) != std::string::npos;
    if (std::strcmp(rights, "rw-s") != 0 || cards) continue;
    found.push_back({reinterpret_cast<char*>(begin), end - begin});
  }
  return found;
}

void overwrite(int byte) {
  start();
  linear(limit / 4);
  for (const Mapping& one : shared_pages()) std::memset(one.begin, byte, one.bytes);
  fill();
  for (const Mapping& one : shared_pages()) std::memset(one.begin, byte, one.bytes);
  fill();
}

void zeros_in_pages() {
  overwrite(0);
}

void ones_in_pages() {
  overwrite(0xff);
}

void pages_unmapped() {
  start();
  linear(limit / 4);
  for (const Mapping& one : shared_pages()) {
    ::mmap(one.begin, one.bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
           -1, 0);
  }
  fill();
}

// --- other processes -----------------------------------------------------------------------------

int export_piece(uint64_t bytes) {
  Pointer handle = 0;
  int file = -1;
  if (create(&handle, bytes, 0, 1) != kSuccess) return -1;
  NEED(call("cuMemExportToShareableHandle", &file, handle, 1, uint64_t{0}) == kSuccess);
  NEED(call("cuMemRelease", handle) == kSuccess);
  return file;
}

void exported_and_released() {
  start();
  until_refused(kPiece, [] { return export_piece(kPiece) >= 0 ? kSuccess : kOutOfMemory; });
}

// The importer lives on when the exporter has freed, and the exporter begins again.
void imported() {
  int ends[2] = {-1, -1};
  NEED(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  char byte = 0;
  if (::fork() == 0) {
    start();
    Pointer handle = 0;
    const auto file = static_cast<std::intptr_t>(receive_file(ends[1]));
    const bool has = call("cuMemImportFromShareableHandle", &handle, reinterpret_cast<void*>(file),
                          1) == kSuccess &&
                     map(handle, limit / 4) != 0;
    ::close(static_cast<int>(file));
    static_cast<void>(::write(ends[1], has ? "y" : "n", 1));
    for (;;) ::pause();
  }
  start();
  const int file = export_piece(limit / 4);
  NEED(file >= 0);
  NEED(send_file(ends[0], file));
  ::close(file);
  NEED(::read(ends[0], &byte, 1) == 1);
  said += byte == 'y' ? "imported; " : "not imported; ";
  fill();
}

void opened_by_another() {
  int ends[2] = {-1, -1};
  NEED(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  struct {
    char bytes[64];
  } name{};
  char byte = 0;
  if (::fork() == 0) {
    start();
    Pointer at = 0;
    NEED(::read(ends[1], &name, sizeof name) == sizeof name);
    const bool has = call("cuIpcOpenMemHandle_v2", &at, name, 1U) == kSuccess;
    static_cast<void>(::write(ends[1], has ? "y" : "n", 1));
    for (;;) ::pause();
  }
  start();
  Pointer at = 0;
  NEED(linear(limit / 4, &at) == kSuccess);
  NEED(call("cuIpcGetMemHandle", &name, at) == kSuccess);
  NEED(::write(ends[0], &name, sizeof name) == sizeof name);
  NEED(::read(ends[0], &byte, 1) == 1);
  said += byte == 'y' ? "opened; " : "not opened; ";
  call("cuMemFree_v2", at);
  fill();
}

// Files that outlive their exporters, one after another.
void files_of_ended_exporters() {
  int ends[2] = {-1, -1};
  NEED(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  int kept = 0;
  for (int i = 0; i < 6; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      start();
      const int file = export_piece(limit / 2);
      if (file >= 0) send_file(ends[1], file);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    pollfd waiting{ends[0], POLLIN, 0};
    if (::poll(&waiting, 1, 0) == 1 && receive_file(ends[0]) >= 0) ++kept;
  }
  said += std::to_string(kept) + " files kept; ";
}

}  // namespace

const Case kAttacks[] = {
    {"linear", "cuMemAlloc in pieces of 64 MiB", linear_attack},
    {"one_large", "one piece that is larger than the limit", one_large},
    {"rain", "pieces of 4 KiB", rain},
    {"pieces_of_700_kib", "two pieces share a page of the driver, and not three",
     pieces_of_700_kib},
    {"odd_pieces", "pieces of 513 bytes to 2.2 MB", odd_pieces},
    {"holes", "pieces that keep pages of the driver of which most is free", holes},
    {"pitch", "cuMemAllocPitch, whose rows are longer than asked", pitch},
    {"managed", "managed memory that is written to", managed},
    {"managed_prefetched", "managed memory that is prefetched", managed_prefetched},
    {"arrays", "two-dimensional arrays", arrays},
    {"thin_arrays", "arrays of one row, which take eight", thin_arrays},
    {"volumes", "three-dimensional arrays", volumes},
    {"mipmaps", "mipmapped arrays", mipmaps},
    {"physical", "cuMemCreate without a mapping", physical},
    {"mapped_and_released", "a handle that is released while it is mapped", mapped_and_released},
    {"retained", "a handle of a mapping that ends", retained},
    {"mapped_twice", "one of two mappings ends", mapped_twice},
    {"released_too_often", "a handle that is released a hundred times", released_too_often},
    {"physical_of_the_other_card", "cuMemCreate for a card that is not the context's",
     physical_of_the_other_card},
    {"context_of_the_other_card", "a context of a second card", context_of_the_other_card},
    {"default_pool", "cuMemAllocAsync", default_pool},
    {"default_pool_ptsz", "cuMemAllocAsync_ptsz", default_pool_ptsz},
    {"explicit_pool", "cuMemAllocFromPoolAsync", explicit_pool},
    {"explicit_pool_ptsz", "cuMemAllocFromPoolAsync_ptsz", explicit_pool_ptsz},
    {"pool_of_the_other_card", "a pool of a card that is not the context's",
     pool_of_the_other_card},
    {"destroyed_pools", "pools that are destroyed before their memory", destroyed_pools},
    {"memory_that_a_pool_keeps", "freed memory that a pool keeps, and other memory",
     memory_that_a_pool_keeps},
    {"small_pieces_of_many_pools", "pools with one small piece each", small_pieces_of_many_pools},
    {"graph_node", "graphs with allocation nodes", graph_node},
    {"captured_graph", "a captured graph that allocates and frees", captured_graph},
    {"captured_graphs_that_keep", "captured graphs whose memory outlives their launch",
     captured_graphs_that_keep},
    {"graph_ptsz", "cuGraphLaunch_ptsz", graph_ptsz},
    {"uploaded_graph", "cuGraphUpload", uploaded_graph},
    {"destroyed_graph", "memory of a graph that is destroyed, and other memory", destroyed_graph},
    {"graph_after_a_destroyed_one", "a graph for which the memory of a destroyed one is trimmed",
     graph_after_a_destroyed_one},
    {"contexts", "many contexts", contexts},
    {"destroyed_context", "memory that outlives its context", destroyed_context},
    {"streams", "many streams", streams},
    {"stack", "a stack of 64 KiB for each thread", stack},
    {"local_memory", "a kernel with 60,000 bytes of local memory", local_memory},
    {"globals", "modules with global variables", globals},
    {"freed_that_is_unknown", "addresses that are freed and are none", freed_that_is_unknown},
    {"freed_twice", "an address that is freed a hundred times", freed_twice},
    {"freed_in_order", "cuMemFreeAsync, twice, of what cuMemAlloc took", freed_in_order},
    {"sizes_that_overflow", "sizes near 2^64", sizes_that_overflow},
    {"reset_context", "primary contexts that are reset", reset_context},
    {"racing_threads", "eight threads at once", racing_threads},
    {"racing_processes", "eight processes at once", racing_processes},
    {"forked", "a child of fork", forked},
    {"vforked", "a child of vfork", vforked},
    {"spawned", "a child of posix_spawn", spawned},
    {"forked_and_executed", "a child of fork that calls exec", forked_and_executed},
    {"bare_clone", "a child of the system call clone, with the driver of its parent", bare_clone},
    {"empty_environment", "a child without environment, as of env -i", empty_environment},
    {"other_environment", "a child with variables that switch limits off", other_environment},
    {"executed", "exec of a program that has memory", executed},
    {"orphan", "a process that its parent has left", orphan},
    {"many_processes", "64 processes", many_processes},
    {"killed_while_allocating", "processes that are killed while they allocate",
     killed_while_allocating},
    {"by_path", "dlopen by the whole path", by_path},
    {"by_another_name", "dlopen of libcuda.so", by_another_name},
    {"by_a_link", "dlopen of a link with a name of its own", by_a_link},
    {"deep_binding", "RTLD_DEEPBIND", deep_binding},
    {"own_namespace", "dlmopen", own_namespace},
    {"both_namespaces", "dlmopen and dlopen", both_namespaces},
    {"global_scope", "RTLD_GLOBAL and RTLD_DEFAULT", global_scope},
    {"each_library_that_is_loaded", "each loaded library of such a name, with RTLD_NOLOAD",
     each_library_that_is_loaded},
    {"proc_address", "cuGetProcAddress of CUDA 12", proc_address},
    {"first_proc_address", "cuGetProcAddress of CUDA 11", first_proc_address},
    {"proc_address_legacy_stream", "cuGetProcAddress with the flag for the legacy stream",
     proc_address_legacy_stream},
    {"proc_address_newer", "cuGetProcAddress for a version that nobody knows", proc_address_newer},
    {"proc_address_of_itself", "cuGetProcAddress by cuGetProcAddress", proc_address_of_itself},
    {"proc_address_of_a_pool", "cuMemAllocAsync by cuGetProcAddress", proc_address_of_a_pool},
    {"proc_address_of_each_thread", "cuMemAllocAsync with the flag for the streams of threads",
     proc_address_of_each_thread},
    {"closed_descriptors", "all descriptors of the library are closed", closed_descriptors},
    {"no_descriptors", "no descriptor can be opened", no_descriptors},
    {"other_user", "a program that becomes another user", other_user},
    {"other_user_from_the_start", "a program of another user", other_user_from_the_start},
    {"own_process_ids", "programs in a namespace of process IDs", own_process_ids},
    {"zeros_in_pages", "zeros in all shared pages of the library", zeros_in_pages},
    {"ones_in_pages", "ones in all shared pages of the library", ones_in_pages},
    {"pages_unmapped", "private memory in the place of all shared pages", pages_unmapped},
    {"exported_and_released", "files of memory whose handle is released", exported_and_released},
    {"imported", "imported memory whose exporter has released it", imported},
    {"opened_by_another", "memory that another process has opened and its owner has freed",
     opened_by_another},
    {"files_of_ended_exporters", "files of memory whose exporter has ended",
     files_of_ended_exporters},
};
const int kAttackCount = static_cast<int>(std::size(kAttacks));

}  // namespace mgpu::fake_gpu::kit
