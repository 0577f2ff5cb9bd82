// Programs that keep the card busy.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "bench/gpu/cuda/programs.h"

namespace mgpu::gpu_trial::cuda {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Eight blocks of 256 threads fill a multiprocessor: this many fill the largest cards several
// times, so that a share of 10 % is busy in full rounds too.
constexpr unsigned kBlocks = 8448;
constexpr unsigned kThreads = 256;
constexpr double kThreadsOfAKernel = double{kBlocks} * kThreads;

// Launches of one kernel, each of the same length.
class Work {
 public:
  Work(const Driver& driver, const OpenDevice& device)
      : driver_(driver), kernel_(device.kernel("spin")) {
    driver.check("cuMemAlloc_v2", driver.allocate(&out_, sizeof(float)));
  }

  void launch(unsigned iterations) {
    void* parameters[] = {&out_, &iterations};
    driver_.check("cuLaunchKernel", driver_.launch(kernel_, kBlocks, 1, 1, kThreads, 1, 1, 0,
                                                   nullptr, parameters, nullptr));
  }
  void wait() { driver_.check("cuCtxSynchronize", driver_.synchronize()); }

  // Iterations with which one kernel takes about `length`, after running for `warm_up`: an idle
  // card has low clocks.
  unsigned iterations_for(Seconds length, milliseconds warm_up) {
    constexpr unsigned kLeast = 1'000;
    constexpr double kMost = 1e8;
    double iterations = kLeast;
    const auto end = steady_clock::now() + warm_up;
    do {
      const auto start = steady_clock::now();
      launch(static_cast<unsigned>(iterations));
      wait();
      const Seconds taken = steady_clock::now() - start;
      iterations *= std::clamp(length / taken, 0.1, 10.0);
      iterations = std::clamp<double>(iterations, kLeast, kMost);
    } while (steady_clock::now() < end);
    return static_cast<unsigned>(iterations);
  }

 private:
  const Driver& driver_;
  const Function kernel_;
  DevicePointer out_ = 0;
};

// In 10^9 thread iterations per second.
double rate_over(Work& work, unsigned iterations, milliseconds duration) {
  constexpr double kUnit = 1e9;
  const auto start = steady_clock::now();
  unsigned launches = 0;
  while (steady_clock::now() - start < duration) {
    // Two in flight, so that the card does not wait for this program.
    work.launch(iterations);
    work.launch(iterations);
    work.wait();
    launches += 2;
  }
  const Seconds taken = steady_clock::now() - start;
  return launches * (kThreadsOfAKernel * iterations) / taken.count() / kUnit;
}

// Whether nothing more can come, through a socket or a pipe.
bool has_input_ended() {
  pollfd input{STDIN_FILENO, POLLRDHUP, 0};
  return ::poll(&input, 1, 0) > 0;
}

}  // namespace

int measure(const Driver& driver, milliseconds duration) {
  const OpenDevice device(driver);
  Work work(driver, device);
  const unsigned iterations = work.iterations_for(milliseconds(5), milliseconds(300));
  print("mps", device.mps());
  print("multiprocessors", static_cast<unsigned>(device.attribute(kMultiprocessorCount)));
  print("ready", 1);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n') print("rate", std::to_string(rate_over(work, iterations, duration)));
  }
  return 0;
}

int busy(const Driver& driver) {
  constexpr unsigned kInFlight = 8;
  constexpr milliseconds kPrintEvery{100};
  const OpenDevice device(driver);
  print("mps", device.mps());
  Work work(driver, device);
  const unsigned iterations = work.iterations_for(milliseconds(5), milliseconds(30));
  unsigned long long kernels = 0;
  milliseconds gap{0};
  auto printed = steady_clock::now();
  for (auto last_end = printed; !has_input_ended(); kernels += kInFlight) {
    for (unsigned i = 0; i < kInFlight; ++i) work.launch(iterations);
    // Printed while kernels run, so that there is work in flight when this program is killed.
    if (kernels == 0) print("ready", 1);
    work.wait();
    const auto now = steady_clock::now();
    gap = std::max(gap, std::chrono::duration_cast<milliseconds>(now - last_end));
    last_end = now;
    if (now - printed < kPrintEvery) continue;
    printed = now;
    print("gap_ms", static_cast<unsigned long long>(gap.count()));
    print("progress", kernels + kInFlight);
  }
  return 0;
}

}  // namespace mgpu::gpu_trial::cuda
