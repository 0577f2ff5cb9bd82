// A check: one question about the hardware, and its answer.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace mgpu::gpu_trial {

using Json = nlohmann::ordered_json;
struct Trial;

// What a check finds. Each finding is written at once as a line of JSON, so that those of a check
// that hangs later are not lost. For one thread.
//
//   {"fact": "reserved memory", "value": 612, "unit": "MiB"}
//   {"expectation": "the limit holds", "held": false, "detail": "allocated 1,100 MiB of 1,024"}
//   {"skipped": "nvidia-cuda-mps-control is not on this machine"}
class Findings {
 public:
  using Clock = std::chrono::steady_clock;
  using Write = std::function<void(const Json&)>;
  // `deadline` is when the check will be ended.
  Findings(Write write, Clock::time_point deadline)
      : write_(std::move(write)), deadline_(deadline) {}

  // An answer, as a number, a text or a list. `unit` is "MiB", "percent", ...; empty: none. A fact
  // that is written again replaces the earlier one.
  void fact(std::string_view name, Json value, std::string_view unit = "");
  // What this project promises or relies on. `detail` is one sentence: what was found instead.
  void expect(std::string_view what, bool held, std::string_view detail);
  // The question has no meaning on this machine, for this reason; nothing else was found out.
  void skip(std::string_view reason);
  // For checks that repeat something as often as there is time for.
  std::chrono::milliseconds time_left() const;

 private:
  const Write write_;
  const Clock::time_point deadline_;
};

struct Check {
  std::string_view name;      // "mps-memory"; unique
  std::string_view question;  // one sentence
  std::chrono::seconds limit;
  // Runs in a process of its own. Errors: the question could not be asked, one sentence why.
  Result<void> (*run)(const Trial& trial, Findings& findings);
};

// In the order in which they run.
std::span<const Check> all_checks();

}  // namespace mgpu::gpu_trial
