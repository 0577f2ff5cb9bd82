#include "extender/kubectl/doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "extender/kubectl/limits.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {
namespace {

constexpr std::array<const char*, 5> kLevelNames = {"ok", "note", "unknown", "warning", "error"};
constexpr std::array<Color, 5> kLevelColors = {Color::kGreen, Color::kBlue, Color::kYellow,
                                               Color::kYellow, Color::kRed};

// " [a, b and 3 more]"
std::string objects_text(const std::vector<std::string>& objects) {
  std::string text;
  const std::size_t shown = std::min(objects.size(), kShownObjectsMax);
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? " [" : ", ") + sanitize_for_terminal(objects[i], 2 * kShownNameMax + 1);
  }
  if (shown < objects.size()) text += fmt::format(" and {} more", objects.size() - shown);
  return text + (objects.empty() ? "" : "]");
}

void count(const std::vector<CheckReport>& reports, std::array<std::size_t, 5>& counts) {
  for (const CheckReport& report : reports) {
    for (const Finding& finding : report.findings) {
      ++counts.at(static_cast<std::size_t>(finding.level));
    }
  }
}

std::string summary(const std::vector<CheckReport>& reports) {
  std::array<std::size_t, 5> counts{};
  count(reports, counts);
  return fmt::format("\nerrors: {}, warnings: {}, not checked: {}, notes: {}, ok: {}\n", counts[4],
                     counts[3], counts[2], counts[1], counts[0]);
}

}  // namespace

std::string to_string(Level level) {
  return kLevelNames.at(static_cast<std::size_t>(level));
}

bool has_problems(const std::vector<CheckReport>& reports) {
  return std::ranges::any_of(reports, [](const CheckReport& report) {
    return std::ranges::any_of(report.findings,
                               [](const Finding& finding) { return finding.level > Level::kNote; });
  });
}

std::string report_table(const std::vector<CheckReport>& reports, bool colors) {
  std::size_t check_width = 5;  // of "CHECK"
  for (const CheckReport& report : reports) {
    check_width = std::max(check_width, report.check.size());
  }
  std::string text = fmt::format("{:<9}{:<{}}  {}\n", "STATUS", "CHECK", check_width, "FINDING");
  for (const CheckReport& report : reports) {
    for (const Finding& finding : report.findings) {
      const std::string status = fmt::format("{:<9}", to_string(finding.level));
      const Color color = kLevelColors.at(static_cast<std::size_t>(finding.level));
      text += fmt::format("{}{:<{}}  {}{}\n", colored(status, color, colors), report.check,
                          check_width, sanitize_for_terminal(finding.what, kShownSentenceMax),
                          objects_text(finding.objects));
      if (finding.remedy.empty()) continue;
      text += fmt::format("{:<{}}-> {}\n", "", check_width + 11,
                          sanitize_for_terminal(finding.remedy, kShownSentenceMax));
    }
  }
  return text + summary(reports);
}

std::string report_json(const std::vector<CheckReport>& reports) {
  Json findings = Json::array();
  for (const CheckReport& report : reports) {
    for (const Finding& finding : report.findings) {
      Json one = {
          {"check", report.check}, {"status", to_string(finding.level)}, {"message", finding.what}};
      if (!finding.remedy.empty()) one["remedy"] = finding.remedy;
      if (!finding.objects.empty()) one["objects"] = finding.objects;
      findings.push_back(std::move(one));
    }
  }
  return json_text({{"healthy", !has_problems(reports)}, {"findings", std::move(findings)}});
}

}  // namespace mgpu::kubectl
