#include "test/extender/kubectl/doctor/check_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/extender/kubectl/doctor/good_facts.h"

namespace mgpu::test {

void expect_findings(const std::string& check, const std::vector<CheckCase>& cases) {
  for (const CheckCase& one : cases) {
    SCOPED_TRACE(one.name);
    kubectl::Facts facts = good_facts();
    one.change(facts);
    const kubectl::Findings findings = findings_of(check, facts);
    std::string all;
    for (const kubectl::Finding& finding : findings) all += finding.what + "\n";
    EXPECT_EQ(findings.size(), 1U) << all;
    if (findings.size() != 1) continue;
    EXPECT_EQ(to_string(findings[0].level), to_string(one.level)) << all;
    EXPECT_THAT(findings[0].what, testing::HasSubstr(one.what));
    EXPECT_THAT(findings[0].remedy, testing::HasSubstr(one.remedy));
    if (!one.objects.empty()) {
      EXPECT_EQ(findings[0].objects, one.objects);
    }
  }
}

kubectl::Findings findings_of(const std::string& name, const kubectl::Facts& facts) {
  const auto& checks = kubectl::all_checks();
  const auto check = std::ranges::find(checks, name, &kubectl::Check::name);
  EXPECT_NE(check, checks.end()) << name;
  return kubectl::run_check(*check, facts, kubectl::Index(facts));
}

}  // namespace mgpu::test
