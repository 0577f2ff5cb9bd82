// Programs about memory, and the one that shows that a container can compute.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/gpu/cuda/programs.h"

namespace mgpu::gpu_trial::cuda {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr unsigned kThreadsOfABlock = 256;

struct Tried {
  bool succeeded = false;
  int code = kSuccess;
};

// Whether an allocation of this size succeeds; it is freed at once.
Tried try_to_allocate(const Driver& driver, std::size_t mib) {
  DevicePointer pointer = 0;
  const int code = driver.allocate(&pointer, mib * kMiB);
  if (code == kSuccess) driver.check("cuMemFree_v2", driver.free(pointer));
  return {code == kSuccess, code};
}

void print_largest(const Driver& driver, std::size_t upto_mib) {
  std::size_t low = 0;              // MiB that succeed
  std::size_t high = upto_mib + 1;  // MiB that fail or are not tried
  int refusal = kSuccess;
  while (high - low > 1) {
    const std::size_t middle = high == upto_mib + 1 ? upto_mib : low + (high - low) / 2;
    const Tried tried = try_to_allocate(driver, middle);
    if (tried.succeeded) low = middle;
    if (tried.succeeded && middle == upto_mib) break;
    if (tried.succeeded) continue;
    high = middle;
    refusal = tried.code;
  }
  print("largest_mib", low);
  if (refusal != kSuccess) print("beyond", driver.name_of(refusal));
}

// Many small allocations, as programs make them, may reach another sum than one large one.
void print_pieces(const Driver& driver, std::size_t upto_mib) {
  constexpr std::size_t kPieceMiB = 16;
  std::vector<DevicePointer> pieces;
  while (pieces.size() * kPieceMiB < upto_mib) {
    DevicePointer pointer = 0;
    if (driver.allocate(&pointer, kPieceMiB * kMiB) != kSuccess) break;
    pieces.push_back(pointer);
  }
  print("pieces_mib", pieces.size() * kPieceMiB);
  for (const DevicePointer piece : pieces) driver.check("cuMemFree_v2", driver.free(piece));
}

std::size_t print_total(const Driver& driver) {
  std::size_t free = 0;
  std::size_t total = 0;
  driver.check("cuMemGetInfo_v2", driver.memory_info(&free, &total));
  print("total_mib", total / kMiB);
  print("free_mib", free / kMiB);
  return total / kMiB;
}

DevicePointer allocated(const Driver& driver, std::size_t bytes) {
  DevicePointer pointer = 0;
  driver.check("cuMemAlloc_v2", driver.allocate(&pointer, bytes));
  return pointer;
}

DevicePointer copied(const Driver& driver, const std::vector<float>& numbers) {
  const std::size_t bytes = numbers.size() * sizeof(float);
  const DevicePointer pointer = allocated(driver, bytes);
  driver.check("cuMemcpyHtoD_v2", driver.copy_to_device(pointer, numbers.data(), bytes));
  return pointer;
}

// Whether the card adds two vectors as the CPU does. The numbers are whole and small, so that float
// holds their sums exactly.
bool adds_correctly(const Driver& driver, const OpenDevice& device) {
  unsigned count = 1 << 20;
  std::vector<float> a(count);
  std::vector<float> b(count);
  for (unsigned i = 0; i < count; ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = static_cast<float>(i % 777);
  }
  DevicePointer on_device[] = {copied(driver, a), copied(driver, b),
                               copied(driver, std::vector<float>(count, -1))};
  void* parameters[] = {&on_device[0], &on_device[1], &on_device[2], &count};
  const unsigned blocks = (count + kThreadsOfABlock - 1) / kThreadsOfABlock;
  driver.check("cuLaunchKernel",
               driver.launch(device.kernel("vector_add"), blocks, 1, 1, kThreadsOfABlock, 1, 1, 0,
                             nullptr, parameters, nullptr));
  driver.check("cuCtxSynchronize", driver.synchronize());
  std::vector<float> sums(count);
  driver.check("cuMemcpyDtoH_v2",
               driver.copy_to_host(sums.data(), on_device[2], count * sizeof(float)));
  for (unsigned i = 0; i < count; ++i) {
    if (sums[i] != a[i] + b[i]) return false;
  }
  return true;
}

}  // namespace

void print(const char* name, const std::string& value) {
  std::printf("%s=%s\n", name, value.c_str());
  std::fflush(stdout);
}

void print(const char* name, unsigned long long value) {
  print(name, std::to_string(value));
}

int vector_add(const Driver& driver) {
  int version = 0;
  const OpenDevice device(driver);
  driver.check("cuDriverGetVersion", driver.driver_version(&version));
  print("mps", device.mps());
  print("device", device.name());
  print("uuid", device.uuid());
  print("multiprocessors", static_cast<unsigned>(device.attribute(kMultiprocessorCount)));
  print("cuda_version", static_cast<unsigned>(version));
  print_total(driver);
  const bool correct = adds_correctly(driver, device);
  print("result", correct ? "correct" : "wrong");
  return correct ? 0 : 1;
}

int largest(const Driver& driver, unsigned long upto_mib) {
  const OpenDevice device(driver);
  print("mps", device.mps());
  const std::size_t total_mib = print_total(driver);
  const std::size_t most = std::min<std::size_t>(upto_mib, total_mib);
  print_largest(driver, most);
  print_pieces(driver, most);
  return 0;
}

int hold(const Driver& driver, unsigned long mib) {
  const OpenDevice device(driver);
  print("mps", device.mps());
  if (mib > 0) allocated(driver, mib * kMiB);
  print_total(driver);
  print("ready", 1);
  char ignored[64];
  while (::read(STDIN_FILENO, ignored, sizeof ignored) > 0) {
  }
  return 0;
}

}  // namespace mgpu::gpu_trial::cuda
