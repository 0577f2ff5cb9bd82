#include "extender/kubectl/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace mgpu::kubectl {

const std::vector<Check>& all_checks() {
  static const std::vector<Check> checks = {
      {"api-server", check_api_server},
      {"installation", check_installation},
      {"clock", check_clock},
      {"objects", check_objects},
      {"rights", check_rights},
      {"policies", check_policies},
      {"extender", check_extender},
      {"versions", check_versions},
      {"leader", check_leader},
      {"endpoints", check_endpoints},
      {"certificates", check_certificates},
      {"scheduler", check_scheduler},
      {"nodes", check_nodes},
      {"kubelets", check_kubelets},
      {"pods", check_pods},
  };
  return checks;
}

std::vector<CheckReport> run_checks(const Facts& facts) {
  std::vector<CheckReport> reports;
  std::set<std::string> unknown;
  for (const Check& check : all_checks()) {
    // What another namespace lacks says nothing about the installation.
    if (facts.is_elsewhere() && reports.size() == 2) break;
    CheckReport report{check.name, check.run(facts)};
    std::erase_if(report.findings, [&](const Finding& finding) {
      return finding.level == Level::kUnknown && !unknown.insert(finding.what).second;
    });
    reports.push_back(std::move(report));
  }
  return reports;
}

void add_grouped(Findings& findings, Finding finding) {
  for (Finding& known : findings) {
    const bool same = known.level == finding.level && known.what == finding.what &&
                      known.remedy == finding.remedy;
    if (!same) continue;
    std::ranges::move(finding.objects, std::back_inserter(known.objects));
    return;
  }
  findings.push_back(std::move(finding));
}

void add_grouped(Findings& findings, const std::string& object, Level level, std::string what,
                 Advice remedy) {
  add_grouped(findings, Finding{level, std::move(what), std::move(remedy), {object}});
}

Finding missing_fact(Missing why, const std::string& problem) {
  switch (why) {
    case Missing::kForbidden:
      return {Level::kUnknown, problem, kOtherUser};
    case Missing::kNotAsked:
      return {Level::kUnknown, problem.empty() ? "this was not asked" : problem};
    case Missing::kAbsent:
    case Missing::kFailed:
      break;
  }
  return {Level::kUnknown, problem, kTryAgain};
}

std::string count_text(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

Findings or_ok(Findings findings, std::string sentence) {
  if (findings.empty()) findings.push_back({Level::kOk, std::move(sentence)});
  return findings;
}

double sum_of(const MetricSamples& samples, std::string_view name, std::string_view label,
              std::string_view value) {
  double sum = 0;
  for (const MetricSample& sample : samples) {
    if (sample.name != name) continue;
    const auto found = sample.labels.find(label);
    const bool counts = label.empty() || (found != sample.labels.end() && found->second == value);
    if (counts) sum += sample.value;
  }
  return sum;
}

}  // namespace mgpu::kubectl
