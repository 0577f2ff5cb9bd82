#include "extender/kubectl/doctor/checks.h"

namespace mgpu::kubectl {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      {"api-server", check_api_server},
  };
  return checks;
}

std::vector<CheckReport> run_checks(const Facts& facts) {
  std::vector<CheckReport> reports;
  for (const Check& check : all_checks()) reports.push_back({check.name, check.run(facts)});
  return reports;
}

}  // namespace mgpu::kubectl
