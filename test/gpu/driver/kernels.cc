#include "test/gpu/driver/kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "test/gpu/driver/process.h"

namespace mgpu::fake_gpu {
namespace {

// Duration of one block and one iteration of "spin" on a whole card: 8448 blocks of 10000
// iterations take 5 ms.
constexpr double kSpinNanoseconds = 5e6 / (8448.0 * 10000.0);

template <class Value>
Value argument(void** arguments, int index) {
  Value value{};
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

// As on a card, a wrong address is found when the kernel runs, and all later calls fail.
void add_vectors(const std::array<Pointer, 3>& vectors, std::size_t count) {
  std::array<Place, 3> places;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    places[i] = device_place(vectors[i], count * sizeof(float));
    if (!places[i].known) process().broken = kIllegalAddress;
  }
  if (process().broken != kSuccess || places[2].data == nullptr) return;
  const float error = has_fault("wrong-sum") ? 1.0F : 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    float sum = error;
    for (std::size_t term = 0; term < 2; ++term) {
      float value = 0;
      if (places[term].data == nullptr) continue;
      std::memcpy(&value, places[term].data + i * sizeof value, sizeof value);
      sum += value;
    }
    std::memcpy(places[2].data + i * sizeof sum, &sum, sizeof sum);
  }
}

}  // namespace

Launch launch_of(const Function& function, std::uint64_t blocks, std::uint64_t threads,
                 void** arguments) {
  Launch launch{.time = function.time};
  if (!function.module->is_text || arguments == nullptr) return launch;
  if (function.name == "spin") {
    const double iterations = argument<std::uint32_t>(arguments, 1);
    const double whole = kSpinNanoseconds * static_cast<double>(blocks) * iterations;
    launch.time.nanoseconds = static_cast<std::int64_t>(whole);
  }
  if (function.name == "vector_add") {
    std::array<Pointer, 3> vectors{};
    for (int i = 0; i < 3; ++i) {
      vectors[static_cast<std::size_t>(i)] = argument<Pointer>(arguments, i);
    }
    const auto asked = argument<std::uint32_t>(arguments, 3);
    const std::size_t count = std::min<std::uint64_t>(asked, blocks * threads);
    if (count > 0) launch.compute = [=] { add_vectors(vectors, count); };
  }
  return launch;
}

}  // namespace mgpu::fake_gpu
