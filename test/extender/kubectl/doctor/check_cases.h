// Tables for the checks: a change of good facts, and the finding that it gives.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "extender/kubectl/doctor/checks.h"

namespace mgpu::test {

using Change = std::function<void(kubectl::Facts&)>;

struct CheckCase {
  const char* name;
  Change change;
  kubectl::Level level;
  const char* what;         // a part of the sentence
  const char* remedy = "";  // a part of it
  std::vector<std::string> objects = {};
};

// With each change the check has exactly one finding, that of the case. Objects are compared where
// the case has some.
void expect_findings(const std::string& check, const std::vector<CheckCase>& cases);

kubectl::Findings findings_of(const std::string& check, const kubectl::Facts& facts);

}  // namespace mgpu::test
