#include "plugin/share/launches.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

#include "plugin/share/launch_window.h"
#include "plugin/share/memory.h"
#include "plugin/share/old_libpthread.h"
#include "plugin/share/table.h"
#include "plugin/share/turn_page.h"

namespace mgpu::share {
namespace {

constexpr long kPoll = 50'000;         // ns between two looks at marks
constexpr long kWaitMax = 50'000'000;  // ns of one wait for a turn
constexpr std::size_t kStreamsMax = 4096;
constexpr unsigned kMarks = 4;           // of a stream that are not done
constexpr unsigned kTimingDisabled = 2;  // CU_EVENT_DISABLE_TIMING
constexpr long kSleepMax = 5'000'000;    // ns of one sleep of the thread that watches
constexpr Result kNotReady = 600;
constexpr Result kFirstCaptureError = 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
constexpr Result kLastCaptureError = 908;
constexpr int kRelaxed = 2;                  // CU_STREAM_CAPTURE_MODE_RELAXED
constexpr std::uintptr_t kThreadStream = 2;  // CU_STREAM_PER_THREAD

// An event behind launches of a stream.
struct Mark {
  Handle event;
  std::uint64_t upto;  // so many launches of the stream are done with it
};

struct Stream {
  Handle context;
  Handle stream;
  bool per_thread;  // a default stream that only its thread can name
  bool gone;        // destroyed
  unsigned calls;   // of the driver that are under way
  std::uint64_t launched;
  std::uint64_t finished;
  std::uint64_t marked;
  // The oldest one first; the rest are events without a use.
  Mark marks[kMarks];
  unsigned mark_count;
  unsigned event_count;
};

struct Turns {
  const TurnPage* page = nullptr;
  std::atomic<std::uint32_t>* activity = nullptr;  // of this process
  LaunchWindow window;
  Table<Stream> streams;
  bool has_helper = false;
  std::atomic<bool> helper_sleeps = false;
  // The plugin was gone, and TurnPage::heartbeat was this.
  std::atomic<bool> was_silent = false;
  std::atomic<std::uint32_t> silent_heartbeat = 0;
};

Turns all[kCardsMax];
std::atomic<bool> any = false;
std::atomic<bool> exiting = false;
pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;  // of all of them

std::uint64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void rest_for(long nanoseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = nanoseconds};
  nanosleep(&time, nullptr);
}

std::uint32_t turn_of(const Turns& turns) {
  return turns.page->turn.load(std::memory_order_seq_cst);
}

// Both work on a mapping that can only be read (futex(2)). 0 nanoseconds are no limit.
void wait_while(const Turns& turns, std::uint32_t turn, long nanoseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = nanoseconds};
  syscall(SYS_futex, &turns.page->turn, FUTEX_WAIT, turn, nanoseconds > 0 ? &time : nullptr,
          nullptr, 0);
}

void wake_all(const Turns& turns) {
  syscall(SYS_futex, &turns.page->turn, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

// While it exists, calls of this thread end no capture: to ask for an event is not allowed while a
// stream is captured (cuThreadExchangeStreamCaptureMode).
class Uncaptured {
 public:
  Uncaptured() { REAL(cuThreadExchangeStreamCaptureMode)(&mode_); }
  ~Uncaptured() { REAL(cuThreadExchangeStreamCaptureMode)(&mode_); }
  Uncaptured(const Uncaptured&) = delete;
  Uncaptured& operator=(const Uncaptured&) = delete;
  Uncaptured(Uncaptured&&) = delete;
  Uncaptured& operator=(Uncaptured&&) = delete;

 private:
  int mode_ = kRelaxed;
};

// --- marks, with the lock ---

// Puts an event behind all launches so far, in `on`, which waits for them.
void mark(Stream& stream, Handle on, bool per_thread) {
  if (stream.marked == stream.launched) return;
  const Uncaptured uncaptured;
  // The last one moves where there are enough.
  const bool moves = stream.mark_count == kMarks;
  Mark& next = stream.marks[moves ? kMarks - 1 : stream.mark_count];
  if (!moves && stream.mark_count == stream.event_count) {
    if (REAL(cuEventCreate)(&next.event, kTimingDisabled) != kSuccess) return;
    ++stream.event_count;
  }
  const auto record = per_thread ? REAL(cuEventRecord_ptsz) : REAL(cuEventRecord);
  if (record(next.event, on) != kSuccess) return;
  next.upto = stream.launched;
  stream.marked = stream.launched;
  if (!moves) ++stream.mark_count;
}

// Also where it cannot be known: the legacy default stream cannot be used while a stream of its
// context is captured.
bool is_capturing(Handle stream, bool per_thread) {
  int status = 0;
  const auto ask = per_thread ? REAL(cuStreamIsCapturing_ptsz) : REAL(cuStreamIsCapturing);
  return ask(stream, &status) != kSuccess || status != 0;
}

// By a thread that has not launched, which cannot name the default stream of another one: there
// each launch has a mark.
void mark_from_outside(Stream& stream) {
  if (stream.calls > 0 || stream.gone || stream.per_thread) return;
  if (stream.marked == stream.launched) return;
  Handle before = nullptr;
  if (REAL(cuCtxPushCurrent_v2)(stream.context) != kSuccess) return;
  if (!is_capturing(stream.stream, false)) mark(stream, stream.stream, false);
  REAL(cuCtxPopCurrent_v2)(&before);
}

// An error is that nobody will ever know, unless something is captured.
bool is_reached(const Mark& mark) {
  const Result result = REAL(cuEventQuery)(mark.event);
  return result != kNotReady && (result < kFirstCaptureError || result > kLastCaptureError);
}

void poll(LaunchWindow& window, Stream& stream) {
  const Uncaptured uncaptured;
  unsigned done = 0;
  while (done < stream.mark_count && is_reached(stream.marks[done])) ++done;
  if (done == 0) return;
  const std::uint64_t upto = stream.marks[done - 1].upto;
  window.finished(upto - stream.finished, now());
  stream.finished = upto;
  stream.mark_count -= done;
  for (; done > 0; --done) {
    const Mark first = stream.marks[0];
    for (unsigned i = 1; i < stream.event_count; ++i) stream.marks[i - 1] = stream.marks[i];
    stream.marks[stream.event_count - 1] = first;
  }
}

void poll_all(Turns& turns) {
  turns.streams.for_each([&](std::uint64_t, Stream& stream) {
    if (stream.mark_count == 0) mark_from_outside(stream);
    poll(turns.window, stream);
  });
}

void destroy_events(Stream& stream) {
  for (unsigned i = 0; i < stream.event_count; ++i) REAL(cuEventDestroy_v2)(stream.marks[i].event);
  stream.event_count = stream.mark_count = 0;
}

bool is_done(const Stream& stream) {
  const bool lost = stream.gone && stream.mark_count == 0;
  return stream.calls == 0 && (stream.finished == stream.launched || lost);
}

// Those of threads and of streams that have ended are not named again.
void forget_done(Turns& turns) {
  turns.streams.erase_if([&](std::uint64_t, Stream& stream) {
    if ((!stream.gone && !stream.per_thread) || !is_done(stream)) return false;
    turns.window.drop(stream.launched - stream.finished);
    destroy_events(stream);
    return true;
  });
}

// Says so if no work of this process is on the card.
bool say_done(Turns& turns) {
  bool done = true;
  turns.streams.for_each([&](std::uint64_t, const Stream& stream) { done &= is_done(stream); });
  if (!done) return false;
  forget_done(turns);
  turns.window.clear();
  turns.activity->fetch_and(~kWorks, std::memory_order_seq_cst);
  return true;
}

// --- the thread that watches the work of a card ---

// Returns whether there is some.
bool look(Turns& turns) {
  const Lock lock(mutex);
  if (exiting || (turns.activity->load() & kWorks) == 0) return false;
  poll_all(turns);
  return !say_done(turns);
}

void* watch(void* which) {
  Turns& turns = *static_cast<Turns*>(which);
  prctl(PR_SET_TIMERSLACK, 1000);
  while (!exiting) {
    const std::uint32_t turn = turn_of(turns);
    if (turn != kTurnAlone && look(turns)) {
      rest_for(kPoll);
      continue;
    }
    turns.helper_sleeps.store(true, std::memory_order_seq_cst);
    const bool new_work = (turns.activity->load(std::memory_order_seq_cst) & kWorks) != 0;
    // Work may begin between these two, and its wake be lost.
    if (turn == kTurnAlone || !new_work)
      wait_while(turns, turn, turn == kTurnAlone ? 0 : kSleepMax);
    turns.helper_sleeps.store(false, std::memory_order_seq_cst);
  }
  return nullptr;
}

// The driver's own functions at the exit of a program come after this one, since it was
// initialized before.
void leave() {
  // A forked child has no such thread, and perhaps a lock that nobody releases.
  if (!cards_attached()) return;
  exiting = true;
  // The thread may be in a call of the driver, which may take any time.
  for (int tries = 0; tries < 100; ++tries) {
    if (pthread_mutex_trylock(&mutex) == 0) {
      pthread_mutex_unlock(&mutex);
      return;
    }
    rest_for(1'000'000);
  }
}

// With the lock.
void start_helper(Turns& turns) {
  static bool leaves = false;
  if (turns.has_helper) return;
  if (!leaves) leaves = std::atexit(&leave) == 0;
  pthread_attr_t attributes;
  pthread_t thread{};
  sigset_t every;
  sigset_t before;
  sigfillset(&every);
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  turns.has_helper = pthread_create(&thread, &attributes, &watch, &turns) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

// --- launches ---

// Default streams have the same handle in all contexts and threads.
std::uint64_t key_of(Handle stream, bool per_thread, Handle context) {
  if (reinterpret_cast<std::uintptr_t>(stream) > kThreadStream) {
    return reinterpret_cast<std::uint64_t>(stream);
  }
  const std::uint64_t thread = per_thread ? static_cast<std::uint64_t>(pthread_self()) : 0;
  return (reinterpret_cast<std::uint64_t>(context) ^ thread << 1U) + 1;
}

// Returns when it is this container's turn. True: the plugin is gone, and programs go on without
// it.
bool wait_for_turn(Turns& turns) {
  constexpr int kSilentMax = 2;
  std::uint32_t heartbeat = turns.page->heartbeat.load();
  if (exiting) return true;
  if (turn_of(turns) != kTurnWait) return false;
  if (turns.was_silent && heartbeat == turns.silent_heartbeat) return true;
  int silent = 0;
  while (turn_of(turns) == kTurnWait && silent < kSilentMax && !exiting) {
    turns.activity->fetch_or(kWaits, std::memory_order_seq_cst);
    wait_while(turns, kTurnWait, kWaitMax);
    const std::uint32_t after = turns.page->heartbeat.load();
    silent = after == heartbeat ? silent + 1 : 0;
    heartbeat = after;
  }
  turns.activity->fetch_and(~kWaits, std::memory_order_seq_cst);
  turns.silent_heartbeat = heartbeat;
  turns.was_silent = silent == kSilentMax;
  return turns.was_silent;
}

// Counts a launch. False: the turn has ended meanwhile, or enough is queued.
bool count(Turns& turns, bool in_any_case, std::uint64_t key, const Stream& launched) {
  const Lock lock(mutex);
  const bool alone = turn_of(turns) == kTurnAlone;
  if (!turns.window.may_launch(alone)) poll_all(turns);
  if (!turns.window.may_launch(alone) && !in_any_case) {
    turns.window.blocked(now());
    return false;
  }
  turns.activity->fetch_or(kWorks, std::memory_order_seq_cst);
  // Either this sees that the turn has ended, or the plugin sees that there is work.
  if (turn_of(turns) == kTurnWait && !in_any_case) {
    say_done(turns);
    return false;
  }
  turns.activity->fetch_add(kLaunch, std::memory_order_relaxed);
  if (turns.streams.size() == kStreamsMax && turns.streams.find(key) == nullptr) forget_done(turns);
  Stream* known = turns.streams.find(key);
  if (known != nullptr &&
      known->context != launched.context) {  // the handle is another stream's now
    turns.window.drop(known->launched - known->finished);
    destroy_events(*known);
    *known = launched;
  }
  if (known == nullptr && turns.streams.size() < kStreamsMax) {
    known = turns.streams.insert(key);
    if (known != nullptr) *known = launched;
  }
  if (known == nullptr) return true;
  known->gone = false;  // the driver gives the handle of one that was destroyed to another one
  ++known->calls;
  ++known->launched;
  turns.window.launched(now());
  return true;
}

void end_launches_of_stream(Handle stream) {
  if (!any_turns() || reinterpret_cast<std::uintptr_t>(stream) <= kThreadStream) return;
  const auto key = reinterpret_cast<std::uint64_t>(stream);
  const Lock lock(mutex);
  for (Turns& turns : all) {
    Stream* const known = turns.streams.find(key);
    if (known == nullptr) continue;
    poll(turns.window, *known);
    mark_from_outside(*known);
    known->gone = true;
  }
}

}  // namespace

// A forked child has no cards, and no locks of its parent.
bool any_turns() {
  return any.load(std::memory_order_relaxed) && cards_attached();
}

Failure attach_turns(unsigned card, const char* folder, const std::uint8_t (&uuid)[16],
                     unsigned slot) {
  ActivityPage* activity = nullptr;
  Turns& turns = all[card];
  const Failure failure = map_turn_pages(folder, uuid, &turns.page, &activity);
  if (failure != nullptr) turns.page = nullptr;
  if (turns.page == nullptr) return failure;
  turns.activity = &activity->slots[slot];
  turns.activity->store(0);  // of an earlier process
  any = true;
  return nullptr;
}

void forget_launches() {
  mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  for (Turns& turns : all) {
    turns.streams.clear();
    turns.window = {};
    turns.has_helper = false;
    turns.helper_sleeps = false;
  }
}

Launch::Launch(Handle stream, bool per_thread) : stream_(stream), per_thread_(per_thread) {
  const Card* const card = current_card();
  Turns* const turns = card != nullptr ? &all[index_of(*card)] : nullptr;
  if (turns == nullptr || turns->page == nullptr || is_capturing(stream, per_thread)) return;
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  Stream launched{};
  launched.stream = stream;
  launched.per_thread = handle == kThreadStream || (per_thread && handle == 0);
  REAL(cuCtxGetCurrent)(&launched.context);
  key_ = key_of(stream, launched.per_thread, launched.context);
  for (;;) {
    const bool in_any_case = wait_for_turn(*turns);
    if (count(*turns, in_any_case, key_, launched)) break;
    rest_for(kPoll);
  }
  card_ = index_of(*card);
}

Launch::~Launch() {
  if (card_ == kCardsMax) return;
  Turns& turns = all[card_];
  bool wake = false;
  {
    const Lock lock(mutex);
    const bool watched = turn_of(turns) != kTurnAlone;
    Stream* const known = turns.streams.find(key_);
    if (known != nullptr && known->calls > 0) {
      --known->calls;
      const bool due =
          known->per_thread || known->launched - known->marked >= turns.window.mark_every();
      if (due && !known->gone) mark(*known, stream_, per_thread_);
    }
    start_helper(turns);
    wake = watched && turns.helper_sleeps.load(std::memory_order_seq_cst);
  }
  if (wake) wake_all(turns);
}

void end_launches_of_context(Handle context) {
  if (!any_turns()) return;
  const Lock lock(mutex);
  for (Turns& turns : all) {
    turns.streams.erase_if([&](std::uint64_t, Stream& stream) {
      if (stream.context != context) return false;
      turns.window.drop(stream.launched - stream.finished);
      destroy_events(stream);
      return true;
    });
  }
}

// --- the driver's functions ------------------------------------------------------------

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments of a call have theirs.
#define MGPU_LAUNCH(name, parameters, arguments, stream, per_thread)                 \
  Result name parameters {                                                           \
    return launch_in_turn(stream, per_thread, [&] { return REAL(name) arguments; }); \
  }
// NOLINTEND(bugprone-macro-parentheses)
#define MGPU_KERNEL_PARAMETERS                                                              \
  (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** values, \
   void** extra)
#define MGPU_KERNEL_ARGUMENTS \
  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, values, extra)
#define MGPU_COOPERATIVE_PARAMETERS                                                      \
  (Handle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, \
   unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** values)
#define MGPU_COOPERATIVE_ARGUMENTS \
  (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, values)
#define MGPU_EX_PARAMETERS \
  (const LaunchConfig* config, Handle function, void** values, void** extra)
#define MGPU_EX_STREAM (config != nullptr ? config->stream : nullptr)

MGPU_LAUNCH(cuLaunchKernel, MGPU_KERNEL_PARAMETERS, MGPU_KERNEL_ARGUMENTS, stream, false)
MGPU_LAUNCH(cuLaunchKernel_ptsz, MGPU_KERNEL_PARAMETERS, MGPU_KERNEL_ARGUMENTS, stream, true)
MGPU_LAUNCH(cuLaunchKernelEx, MGPU_EX_PARAMETERS, (config, function, values, extra), MGPU_EX_STREAM,
            false)
MGPU_LAUNCH(cuLaunchKernelEx_ptsz, MGPU_EX_PARAMETERS, (config, function, values, extra),
            MGPU_EX_STREAM, true)
MGPU_LAUNCH(cuLaunchCooperativeKernel, MGPU_COOPERATIVE_PARAMETERS, MGPU_COOPERATIVE_ARGUMENTS,
            stream, false)
MGPU_LAUNCH(cuLaunchCooperativeKernel_ptsz, MGPU_COOPERATIVE_PARAMETERS, MGPU_COOPERATIVE_ARGUMENTS,
            stream, true)
MGPU_LAUNCH(cuLaunch, (Handle function), (function), nullptr, false)
MGPU_LAUNCH(cuLaunchGrid, (Handle function, int width, int height), (function, width, height),
            nullptr, false)
MGPU_LAUNCH(cuLaunchGridAsync, (Handle function, int width, int height, Handle stream),
            (function, width, height, stream), stream, false)

Result cuStreamDestroy(Handle stream) {
  end_launches_of_stream(stream);
  return REAL(cuStreamDestroy)(stream);
}

Result cuStreamDestroy_v2(Handle stream) {
  end_launches_of_stream(stream);
  return REAL(cuStreamDestroy_v2)(stream);
}

}  // namespace mgpu::share
