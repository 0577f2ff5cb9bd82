// A program that keeps the card busy: fake_gpu_turns MICROSECONDS GAP STREAMS MILLISECONDS. It
// launches kernels of so many microseconds for so long, waits for them now and then (with a gap of
// microseconds after each if there is one), and prints how many have ended. Instead of a gap,
// "contexts" makes a context for every eight kernels, and "forks" has a child that exits after
// each.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "test/gpu/cuda_program.h"

namespace mgpu::fake_gpu {
namespace {

constexpr int kUnwaited = 200;

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

void rest(long microseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = microseconds * 1'000};
  nanosleep(&time, nullptr);
}

Handle load_kernel(const std::string& name) {
  const std::string image =
      ".version 7.0\n.target sm_70\n.visible .entry " + name + "()\n{ ret; }\n";
  Handle module = nullptr;
  Handle function = nullptr;
  must(call("cuModuleLoadData", &module, static_cast<const void*>(image.c_str())));
  must(call("cuModuleGetFunction", &function, module, name.c_str()));
  return function;
}

void run_in_a_context(const std::string& name) {
  Handle context = nullptr;
  must(call("cuCtxCreate_v2", &context, 0U, 0));
  Handle kernel = load_kernel(name);
  for (int i = 0; i < 8; ++i) {
    must(call("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, Handle{}, Handle{}, Handle{}));
  }
  must(call("cuCtxSynchronize"));
  must(call("cuCtxDestroy_v2", context));
}

void exit_in_a_child() {
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);
  ::waitpid(child, nullptr, 0);
}

int run(const std::string& duration, const std::string& how, int count, std::int64_t milliseconds) {
  const long gap = std::atol(how.c_str());
  ::alarm(70);
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::puts("no library"), 1;
  Handle context = nullptr;
  must(call("cuInit", 0U));
  must(call("cuDevicePrimaryCtxRetain", &context, 0));
  must(call("cuCtxSetCurrent", context));
  Handle kernel = load_kernel("spin_" + duration + "us");
  std::vector<Handle> streams(static_cast<std::size_t>(count));
  for (Handle& stream : streams) {
    must(call("cuStreamCreate", &stream, 1U));
  }
  std::puts("ready");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 1;
  const std::int64_t end = now() + milliseconds * 1'000'000;
  long launched = 0;
  const int unwaited = gap > 0 ? 1 : kUnwaited;
  for (; how == "contexts" && now() < end; launched += 8)
    run_in_a_context("spin_" + duration + "us");
  while (now() < end) {
    Handle stream = streams[static_cast<std::size_t>(launched) % streams.size()];
    must(call("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, Handle{}, Handle{}));
    if (++launched % unwaited == 0) must(call("cuCtxSynchronize"));
    if (gap > 0) rest(gap);
    if (how == "forks") exit_in_a_child();
  }
  std::printf("%ld\n", launched);
  return 0;
}

}  // namespace
}  // namespace mgpu::fake_gpu

int main(int count, char** words) {
  if (count != 5) return 2;
  return mgpu::fake_gpu::run(words[1], words[2], std::atoi(words[3]), std::atol(words[4]));
}
