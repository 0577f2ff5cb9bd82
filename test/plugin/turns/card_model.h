// A model of a card and the programs on it, in virtual time: the same seed gives the same numbers.
//
// The card serves contexts with work in turn, in slices; between two it does nothing for a moment.
// A context without work is passed over, one that is alone is not interrupted. Kernels of a stream
// run in order, streams of a context together while their widths fit. A program is a thread that
// launches, waits and computes. What it may launch is decided by its `Gate`. Where times and sizes
// come from: an H200 (bench/gpu/README.md) for slices and switches; the rest are assumptions.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

namespace mgpu::plugin::model {

using Time = std::int64_t;  // nanoseconds
inline constexpr Time kMicrosecond = 1'000;
inline constexpr Time kMillisecond = 1'000'000;
inline constexpr Time kSecond = 1'000'000'000;

// Always the same numbers, on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {}
  std::uint64_t next();
  double between(double low, double high);  // evenly
  Time jitter(Time mean);                   // exponentially
  double normal();                          // mean 0, deviation 1
  std::size_t below(std::size_t count) { return next() % count; }

 private:
  std::uint64_t state_;
};

struct Kernel {
  Time duration;
  double width = 1;   // of the card
  double blocks = 0;  // of its grid
};

enum class Kind {
  kFlood,  // launches, and waits after every `wait_every`
  kLoop,   // launches `burst` kernels, waits for them, computes for `gap`
  kServe,  // the same for each request; these come at random, `rate` in a second
};

struct Program {
  std::string name;
  Kind kind = Kind::kFlood;
  std::vector<Kernel> kernels{};  // one of them by chance
  int streams = 1;
  int wait_every = 500;
  int burst = 1;
  Time gap = 0;
  double rate = 0;
  Time on = 0;  // of each `on` + `off`; 0: always
  Time off = 0;
};

inline constexpr int kStreams = 4;

class Card;

// What a library in the container does. `who` is the number of a program.
class Gate {
 public:
  Gate() = default;
  virtual ~Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  Gate(Gate&&) = delete;
  Gate& operator=(Gate&&) = delete;

  virtual void begin(Card&) {}
  // False: the program stops until Card::wake().
  virtual bool may_launch(std::size_t, int /*stream*/) { return true; }
  virtual void launched(std::size_t, int /*stream*/, const Kernel&) {}
  virtual void waits(std::size_t) {}       // the program waits for all its work
  virtual void has_waited(std::size_t) {}  // which is done
  virtual void reached(std::size_t, int /*stream*/, std::uint64_t /*mark*/) {}
};

class Card {
 public:
  Card(std::uint64_t seed, std::unique_ptr<Gate> gate) : random_(seed), gate_(std::move(gate)) {}

  void add(const Program& program, std::uint64_t seed);
  void run(Time until);

  // --- for gates ---
  Time now() const { return now_; }
  Random& random() { return random_; }
  void at(Time time, std::function<void()> event);
  void wake(std::size_t who, Time after);
  bool is_stopped(std::size_t who) const { return programs_[who].state == State::kStopped; }
  // Puts a mark behind the work of a stream.
  void mark(std::size_t who, int stream, std::uint64_t number);

  // --- results ---
  Time busy(std::size_t who) const;
  // The same, and gaps that are too short for anybody else.
  Time held(std::size_t who) const { return busy(who) + programs_[who].short_gaps; }
  bool is_on(std::size_t who, Time time) const;

 private:
  enum class State { kRuns, kStopped, kQueueFull, kWaits };
  struct Item {
    bool is_mark;
    Time duration;
    double width;
    Time ready;
    std::uint64_t mark;
  };
  struct Stream {
    std::deque<Item> queue{};
    bool runs = false;
    Time end = 0;
    Time rest = 0;  // of the kernel that runs, while its context has no slice
    std::uint32_t generation = 0;
  };
  // A program with its context.
  struct Running {
    Program program;
    Random random;
    State state = State::kRuns;
    int step = 0;
    Time request = -1;
    bool wait_ends = false;
    std::array<Stream, kStreams> streams{};
    int running = 0;
    double width = 0;
    int pending = 0;
    Time busy = 0;
    Time since = -1;
    Time last_end = -1;
    Time short_gaps = 0;
  };
  enum class Next { kLaunch, kWait, kCompute };
  struct Step {
    Next next;
    Time time = 0;
    int stream = 0;
  };

  Step next_step(Running& running) const;
  void advance(std::size_t who);
  void push(std::size_t who, int stream, Item item);
  void serve(std::size_t who);
  void completed(std::size_t who);
  bool has_work(const Running& running) const;
  bool has_slice(std::size_t who) const { return current_ == static_cast<int>(who) && !switching_; }
  void start(std::size_t who, int stream);
  void end(std::size_t who, int stream, std::uint32_t generation);
  void stop_clock(Running& running);
  void start_clock(Running& running) const;
  int next_context() const;
  void switch_to(int who);
  void choose();

  struct Event {
    Time time;
    std::uint64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  Random random_;
  std::unique_ptr<Gate> gate_;
  std::vector<Running> programs_{};
  std::priority_queue<Event> events_{};
  std::uint64_t order_ = 0;
  Time now_ = 0;
  int current_ = -1;
  bool switching_ = false;
  bool slice_ends_ = false;
  Time slice_start_ = 0;
  std::uint32_t slice_ = 0;
};

}  // namespace mgpu::plugin::model
