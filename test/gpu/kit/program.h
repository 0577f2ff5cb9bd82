// What the cases of the kit have in common. Each runs in a process of its own.
#pragma once

#include <string>

#include "test/gpu/cuda_program.h"

namespace mgpu::fake_gpu::kit {

inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

inline constexpr std::uint64_t kPiece = 64 * kMiB;

// CUDA_ARRAY3D_DESCRIPTOR
struct Shape {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
  int format;
  unsigned channels;
  unsigned flags;
};

// Of memory on each card, in bytes.
inline std::uint64_t limit = 0;
// For the table: what was granted and refused.
inline std::string said;

// An attack tries to have more than the limit, and need not notice that it fails. An everyday use
// ends with fail() if it does not see what the case says; a card of this size would pass it.
struct Case {
  const char* name;
  const char* what;
  void (*run)();
};

[[noreturn]] inline void fail(const char* what, int line) {
  std::printf("FAIL line %d: expected %s; last called %s\n", line, what, step);
  std::fflush(stdout);
  std::_Exit(1);
}
#define NEED(holds) ((holds) ? static_cast<void>(0) : ::mgpu::fake_gpu::kit::fail(#holds, __LINE__))

// CUDA with the primary context of the first card, of a library that is open already or found as
// programs find it. False if there is no memory for it.
bool begin(void* open = nullptr);
// The same, where there must be.
inline void start(void* open = nullptr) {
  NEED(begin(open));
}

// Takes pieces until one is refused, or twice the limit was granted.
template <class Take>
std::uint64_t until_refused(std::uint64_t piece, Take take) {
  std::uint64_t granted = 0;
  int code = kSuccess;
  while (granted <= 2 * limit && (code = take()) == kSuccess) granted += piece;
  said += std::to_string(granted / kMiB) + " MiB granted";
  said += code == kSuccess ? "; " : ", then error " + std::to_string(code) + "; ";
  return granted;
}

int linear(std::uint64_t bytes, Pointer* at = nullptr);
// The rest of the share, in the plainest way.
void fill();
std::uint64_t free_now();

// How a second program begins.
enum class Way { fork, vfork, spawn, bare, empty_environment, other_environment, exec_again };
// Another process that takes so much and stays. Returns when it has what it gets.
// REQUIRES: start() was not called before where `way` is fork.
int holder(std::uint64_t mib, Way way = Way::spawn);
// The other end of a holder: the arguments of its program.
int hold(char** words);

extern const Case kAttacks[];
extern const int kAttackCount;
extern const Case kEverydays[];
extern const int kEverydayCount;

}  // namespace mgpu::fake_gpu::kit
