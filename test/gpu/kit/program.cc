// Programs that use CUDA in a share of a card, for kit.py: kit_program CASE, or: list
//
// A case prints DONE when the card can be looked at, and stays; or FAIL or SKIP with a reason.
#include "test/gpu/kit/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

extern char** environ;

namespace mgpu::fake_gpu::kit {
namespace {

std::string text_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

void exec_with(std::vector<std::string> words, std::vector<std::string> variables) {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : variables) environment.push_back(variable.data());
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  ::execve("/proc/self/exe", arguments.data(), environment.data());
}

// Names by which libraries of this kind can be told to do nothing.
std::vector<std::string> other_environment() {
  std::vector<std::string> all{
      "CUDA_DISABLE_CONTROL=true", "CUDA_DEVICE_MEMORY_LIMIT=0", "CUDA_DEVICE_MEMORY_LIMIT_0=900g",
      "MGPU_LIMIT_MIB=900000",     "ACTIVE_OOM_KILLER=0",        "LD_PRELOAD="};
  for (char** one = environ; *one != nullptr; ++one) {
    if (std::strncmp(*one, "CUDA_", 5) != 0 && std::strncmp(*one, "LD_PRELOAD", 10) != 0) {
      all.emplace_back(*one);
    }
  }
  return all;
}

}  // namespace

bool begin(void* open) {
  library = open != nullptr ? open : ::dlopen("libcuda.so.1", RTLD_NOW);
  // With no environment, where it is in a container.
  if (library == nullptr) library = ::dlopen(text_of("MGPU_KIT_LIBCUDA").c_str(), RTLD_NOW);
  Handle context = nullptr;
  return library != nullptr && call("cuInit", 0U) == kSuccess &&
         call("cuDevicePrimaryCtxRetain", &context, 0) == kSuccess &&
         call("cuCtxSetCurrent", context) == kSuccess;
}

int linear(std::uint64_t bytes, Pointer* at) {
  Pointer pointer = 0;
  const int code = call("cuMemAlloc_v2", &pointer, static_cast<std::size_t>(bytes));
  if (at != nullptr) *at = pointer;
  return code;
}

void fill() {
  until_refused(64 * kMiB, [] { return linear(64 * kMiB); });
}

std::uint64_t free_now() {
  std::size_t free = 0;
  std::size_t total = 0;
  NEED(call("cuMemGetInfo_v2", &free, &total) == kSuccess);
  return free;
}

namespace {

[[noreturn]] void take_and_stay(std::uint64_t mib, int ready) {
  std::uint64_t taken = 0;
  // A child without exec has the library of its parent. Where the share is full there is not even
  // a context.
  if (begin(library)) {
    const std::uint64_t piece = std::min<std::uint64_t>(mib, 64);
    while (taken < mib && linear(piece * kMiB) == kSuccess) taken += piece;
  }
  NEED(::write(ready, &taken, sizeof taken) == sizeof taken);
  for (;;) ::pause();
}

}  // namespace

int hold(char** words) {
  ::setenv("MGPU_FAKE_GPU", words[2], 1);  // the cards themselves, which are no environment
  ::setenv("MGPU_KIT_LIBCUDA", words[3], 1);
  take_and_stay(std::strtoull(words[0], nullptr, 10), std::atoi(words[1]));
}

int holder(std::uint64_t mib, Way way) {
  int ends[2] = {-1, -1};
  NEED(::pipe(ends) == 0);
  std::vector<std::string> words{"kit_program",
                                 "@hold",
                                 std::to_string(mib),
                                 std::to_string(ends[1]),
                                 text_of("MGPU_FAKE_GPU"),
                                 text_of("MGPU_KIT_LIBCUDA")};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = -1;
  std::fflush(nullptr);
  if (way == Way::spawn) {
    NEED(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) == 0);
  } else if (way == Way::vfork) {
    child = ::vfork();
    if (child == 0) {
      ::execv("/proc/self/exe", arguments.data());
      ::_exit(3);
    }
  } else {
    child = way == Way::bare
                ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0))
                : ::fork();
    if (child == 0) {
      if (way == Way::fork || way == Way::bare) take_and_stay(mib, ends[1]);
      if (way == Way::empty_environment) exec_with(words, {});
      if (way == Way::other_environment) exec_with(words, other_environment());
      ::execv("/proc/self/exe", arguments.data());
      ::_exit(3);
    }
  }
  NEED(child > 0);
  ::close(ends[1]);
  std::uint64_t taken = 0;
  const bool stays = ::read(ends[0], &taken, sizeof taken) == sizeof taken;
  said += "another has " + (stays ? std::to_string(taken) + " MiB; " : std::string("ended; "));
  ::close(ends[0]);
  return child;
}

}  // namespace mgpu::fake_gpu::kit

namespace {

using namespace mgpu::fake_gpu::kit;

void list(const char* kind, const Case* cases, int count) {
  for (int i = 0; i < count; ++i) {
    std::printf("%s\t%s\t%s\n", cases[i].name, kind, cases[i].what);
  }
}

const Case* find(const Case* cases, int count, const char* name) {
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(cases[i].name, name) == 0) return &cases[i];
  }
  return nullptr;
}

}  // namespace

int main(int count, char** words) {
  if (count == 6 && std::strcmp(words[1], "@hold") == 0) {
    limit = ~std::uint64_t{0};
    return hold(words + 2);
  }
  if (count != 2) return 2;
  if (std::strcmp(words[1], "list") == 0) {
    list("attack", kAttacks, kAttackCount);
    list("everyday", kEverydays, kEverydayCount);
    return 0;
  }
  const Case* found = find(kAttacks, kAttackCount, words[1]);
  if (found == nullptr) found = find(kEverydays, kEverydayCount, words[1]);
  if (found == nullptr) return 2;
  limit = std::strtoull(std::getenv("MGPU_KIT_LIMIT_MIB"), nullptr, 10) * kMiB;
  found->run();
  std::printf("DONE %s\n", said.c_str());
  std::fflush(stdout);
  for (;;) ::pause();
}
