// A library for LD_PRELOAD that moves the wall clock of a program while it runs, and no other
// clock. The file MGPU_MOVED_CLOCK_FILE has the difference in seconds, as 64 bits of the machine's
// order. Debian's libfaketime ends a program with AddressSanitizer when it starts.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

// Functions of this library may be called before its constructor has run.
std::atomic<const std::atomic<std::int64_t>*> g_difference = nullptr;

__attribute__((constructor)) void map_difference() {
  const char* path = std::getenv("MGPU_MOVED_CLOCK_FILE");
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* mapped = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped != MAP_FAILED) g_difference = static_cast<const std::atomic<std::int64_t>*>(mapped);
}

bool is_wall_clock(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, clock, now);
  const auto* difference = g_difference.load();
  if (failed == 0 && difference != nullptr && is_wall_clock(clock)) {
    now->tv_sec += difference->load();
  }
  return static_cast<int>(failed);
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  const int failed = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
  return failed;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
