// A CUDA program for containers that have only a C library: fake_gpu_client [PIECES]. It allocates
// pieces of 64 MiB of card 0 until there is no memory, or so many and stays. It prints what it saw
// in one line, at the end what NVML says of card 0, if there is NVML.
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20U;
constexpr std::size_t kPiece = 64;

void* library = nullptr;

template <class Function>
Function* find(const char* name) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::printf("CLIENT %s is missing: %s\n", name, dlerror());
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

NvmlMemory ask_nvml() {
  NvmlMemory memory{};
  void* device = nullptr;
  void* const nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (nvml == nullptr) return memory;
  const auto call = [&](const char* name, auto... arguments) {
    void* const found = dlsym(nvml, name);
    return found == nullptr
               ? -1
               : reinterpret_cast<int (*)(decltype(arguments)...)>(found)(arguments...);
  };
  if (call("nvmlInit_v2") != 0 || call("nvmlDeviceGetHandleByIndex_v2", 0U, &device) != 0 ||
      call("nvmlDeviceGetMemoryInfo", device, &memory) != 0) {
    std::printf("CLIENT NVML failed\n");
  }
  return memory;
}

void must(const char* what, int result) {
  if (result == 0) return;
  std::printf("CLIENT %s failed: %d\n", what, result);
  std::exit(1);
}

}  // namespace

int main(int count, char** words) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::printf("CLIENT %s\n", dlerror());
    return 1;
  }
  void* context = nullptr;
  std::size_t total = 0;
  std::size_t free = 0;
  must("cuInit", find<int(unsigned)>("cuInit")(0));
  must("cuCtxCreate", find<int(void**, unsigned, int)>("cuCtxCreate_v2")(&context, 0, 0));
  must("cuMemGetInfo", find<int(std::size_t*, std::size_t*)>("cuMemGetInfo_v2")(&free, &total));
  auto* const allocate = find<int(unsigned long long*, std::size_t)>("cuMemAlloc_v2");
  const std::size_t most = count > 1 ? std::strtoul(words[1], nullptr, 10) : SIZE_MAX;
  std::size_t pieces = 0;
  unsigned long long address = 0;
  int result = 0;
  while (pieces < most && (result = allocate(&address, kPiece * kMiB)) == 0) ++pieces;
  const NvmlMemory nvml = ask_nvml();
  std::printf("CLIENT total %zu free %zu allocated %zu error %d nvml %llu used %llu\n",
              total / kMiB, free / kMiB, pieces * kPiece, result, nvml.total / kMiB,
              nvml.used / kMiB);
  if (count > 1) pause();
  return 0;
}
