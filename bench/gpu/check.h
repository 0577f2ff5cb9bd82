// A check answers one question about the hardware.
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

// The findings of a check. Each finding is written at once as a line of JSON, so that it is not
// lost if the check hangs later. Not thread-safe.
//
//   {"fact": "reserved memory", "value": 612, "unit": "MiB"}
//   {"expectation": "the limit holds", "held": false, "detail": "allocated 1,100 MiB of 1,024"}
//   {"skipped": "nvidia-cuda-mps-control is not on this machine"}
class Findings {
 public:
  using Clock = std::chrono::steady_clock;
  using Write = std::function<void(const Json&)>;
  // The check is ended at `deadline`.
  Findings(Write write, Clock::time_point deadline)
      : write_(std::move(write)), deadline_(deadline) {}

  // A fact is a number, a text or a list. `unit` is "MiB", "percent" or another unit, or empty. A
  // later fact of the same name replaces the earlier one.
  void fact(std::string_view name, Json value, std::string_view unit = "");
  // Reports whether documented behaviour of mgpu, or an assumption of its code, held. `detail` is
  // one sentence about the actual result.
  void expect(std::string_view what, bool held, std::string_view detail);
  // The check has no meaning on this machine for this reason, and has no other findings.
  void skip(std::string_view reason);
  // The time until the deadline, for checks that repeat an action until then.
  std::chrono::milliseconds time_left() const;

 private:
  const Write write_;
  const Clock::time_point deadline_;
};

struct Check {
  std::string_view name;      // a unique name such as "mps-memory"
  std::string_view question;  // one sentence
  std::chrono::seconds limit;
  // Runs in its own process. Error: the check could not be made.
  Result<void> (*run)(const Trial& trial, Findings& findings);
  // Whether the trial has the device file of the card open meanwhile, so that not every program
  // initializes the card, which takes seconds without persistence mode.
  bool card_is_open = true;
};

// All checks in the order in which they run.
std::span<const Check> all_checks();

}  // namespace mgpu::gpu_trial
