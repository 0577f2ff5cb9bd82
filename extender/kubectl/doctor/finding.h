// The result of a check.
#pragma once

#include <string>
#include <vector>

namespace mgpu::kubectl {

enum class Level {
  kOk,       // checked, and as expected
  kNote,     // nothing to do, but good to know
  kUnknown,  // could not be checked
  kWarning,  // something works only in part, or will end
  kError,    // something does not work
};

struct Finding {
  Level level = Level::kOk;
  std::string what;                    // one sentence
  std::string remedy{};                // what to do, one sentence; empty if there is nothing
  std::vector<std::string> objects{};  // the nodes, pods or others that it is about

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

// The findings of one check.
struct CheckReport {
  std::string check;
  Findings findings;
};

// "ok", "note", "unknown", "warning", "error"
std::string to_string(Level level);

// Whether anything is left to do: a finding above kNote.
bool has_problems(const std::vector<CheckReport>& reports);

}  // namespace mgpu::kubectl
