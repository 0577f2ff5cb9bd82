#include "bench/gpu/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mgpu::gpu_trial {
namespace {

constexpr std::size_t kFactColumns = 62;

std::string value_text(const Json& fact) {
  const Json& value = fact["value"];
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.empty()) return "(none)";
  if (fact.contains("unit")) text += " " + fact["unit"].get<std::string>();
  return text;
}

// Removes control characters from the output of drivers and programs, because a terminal would
// interpret them.
std::string printable(std::string text) {
  for (char& c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (control && c != '\n') c = '?';
  }
  return text;
}

double seconds_of(const Outcome& outcome) {
  return static_cast<double>(outcome.duration.count()) / 1'000;
}

Json outcome_json(const Outcome& outcome) {
  Json json = {{"name", outcome.name},
               {"question", outcome.question},
               {"status", to_string(outcome.status)},
               {"seconds", seconds_of(outcome)},
               {"facts", Json::array()},
               {"expectations", Json::array()}};
  if (!outcome.reason.empty()) json["reason"] = outcome.reason;
  for (const Json& finding : outcome.findings) {
    json[finding.contains("fact") ? "facts" : "expectations"].push_back(finding);
  }
  return json;
}

}  // namespace

std::string table_of(const Outcome& outcome) {
  std::string table = fmt::format("{:<20} {:<9} {:>6.1f} s  {}\n", outcome.name,
                                  to_string(outcome.status), seconds_of(outcome), outcome.question);
  int expected = 0;
  int held = 0;
  std::string failures;
  for (const Json& finding : outcome.findings) {
    if (finding.contains("fact")) {
      table += fmt::format("  {:<{}} {}\n", finding["fact"].get<std::string>(), kFactColumns,
                           value_text(finding));
      continue;
    }
    ++expected;
    if (finding.value("held", false)) {
      ++held;
    } else {
      failures += fmt::format("  failed: {}: {}\n", finding["expectation"].get<std::string>(),
                              finding["detail"].get<std::string>());
    }
  }
  if (expected > 0) table += fmt::format("  {} of {} expectations held\n", held, expected);
  table += failures;
  if (!outcome.reason.empty()) table += "  " + outcome.reason + "\n";
  return printable(std::move(table));
}

std::string summary_of(const Report& report) {
  std::string summary;
  for (const Status status :
       {Status::kPassed, Status::kFailed, Status::kError, Status::kTimedOut, Status::kSkipped}) {
    const auto count = std::count_if(report.checks.begin(), report.checks.end(),
                                     [&](const Outcome& one) { return one.status == status; });
    if (count == 0 && status != Status::kPassed) continue;
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", count, to_string(status));
  }
  return summary;
}

std::string json_of(const Report& report) {
  Json machine = Json::object();
  for (const Json& finding : report.machine.findings) {
    if (finding.contains("fact")) machine[finding["fact"].get<std::string>()] = finding["value"];
  }
  Json json = {
      {"trial", {{"version", MGPU_VERSION}, {"date", report.date}, {"seconds", report.seconds}}},
      {"machine", machine},
      {"checks", Json::array()}};
  if (report.interrupted) json["trial"]["interrupted"] = true;
  for (const Outcome& outcome : report.checks) json["checks"].push_back(outcome_json(outcome));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool all_passed(const Report& report) {
  return std::all_of(report.checks.begin(), report.checks.end(), [](const Outcome& outcome) {
    return outcome.status == Status::kPassed || outcome.status == Status::kSkipped;
  });
}

}  // namespace mgpu::gpu_trial
