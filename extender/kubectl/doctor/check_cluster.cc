// Clocks, the rights of mgpu's service accounts, and admission policies.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

struct ExpectedPolicy {
  const char* name;
  const char* file;  // of deploy/rbac
  Level level;       // where it is missing
};
constexpr std::array<ExpectedPolicy, 6> kPolicies{{
    {"mgpu-cards-of-bound-pods", "policies.yaml", Level::kError},
    {"mgpu-cards-need-a-scheduler", "policies.yaml", Level::kError},
    {"mgpu-extender-touch", "touch-policy.yaml", Level::kWarning},
    {"mgpu-extender-events", "touch-policy.yaml", Level::kWarning},
    {"mgpu-device-plugin-node", "device-plugin-policy.yaml", Level::kWarning},
    {"mgpu-device-plugin-events", "device-plugin-policy.yaml", Level::kWarning},
}};

// Where the extender writes the endpoints of its Service.
constexpr ExpectedPolicy kEndpointsPolicy{"mgpu-extender-endpoints", "extender-endpoints.yaml",
                                          Level::kWarning};

void check_policy(const Facts& facts, const ExpectedPolicy& expected, Findings& findings) {
  if (!facts.policies.value().contains(expected.name)) {
    add_grouped(findings, expected.name, expected.level,
                "a ValidatingAdmissionPolicy of mgpu is missing, so that the API server "
                "does not enforce it",
                make_again(facts, expected.file));
    return;
  }
  if (!facts.policy_bindings.known()) return;
  const bool denies =
      std::ranges::any_of(facts.policy_bindings.value(), [&](const PolicyBinding& binding) {
        return binding.policy == expected.name && binding.denies;
      });
  if (denies) return;
  add_grouped(findings, expected.name, expected.level,
              "a ValidatingAdmissionPolicy of mgpu has no ValidatingAdmissionPolicyBinding "
              "with validationActions: [Deny], so that the API server does not "
              "enforce it",
              make_again(facts, expected.file));
}

}  // namespace

Findings check_clock(const Facts& facts) {
  Findings findings;
  if (!facts.server.known() && !facts.clock_difference) return findings;
  if (!facts.clock_difference) {
    return {{Level::kNote,
             "the API server does not report the time, so that clocks were not compared"}};
  }
  const auto difference = *facts.clock_difference;
  if (std::chrono::abs(difference) > kClockDifferenceMax) {
    findings.push_back(
        {Level::kWarning,
         fmt::format("the clock of the API server is {} s {} the clock of this machine",
                     std::chrono::abs(difference).count(),
                     difference.count() > 0 ? "ahead of" : "behind"),
         kSynchronize});
  }
  if (facts.lease.known() && facts.lease->renewed) {
    const auto ahead = *facts.lease->renewed - facts.now;
    if (ahead > kLeaseSlack) {
      findings.push_back({Level::kWarning,
                          fmt::format("the clock of the extender that holds the Lease is at least "
                                      "{} s ahead of the clock of the API server",
                                      ahead.count()),
                          kSynchronize});
    }
  }
  return or_ok(std::move(findings), "the clocks of this machine and of the API server agree");
}

Findings check_objects(const Facts& facts) {
  if (!facts.server.known()) return {};
  Findings findings;
  for (const std::string& sentence : facts.unreadable) {
    findings.push_back({Level::kUnknown, sentence, kRepairObject});
  }
  return or_ok(std::move(findings), "all objects that were listed can be read");
}

Findings check_rights(const Facts& facts) {
  Findings findings;
  if (facts.is_nowhere()) return findings;
  if (!facts.rights.known()) {
    // It takes an administrator to ask about others. The extender's own log has its missing rights.
    const Level level =
        facts.rights.missing() == Missing::kForbidden ? Level::kNote : Level::kUnknown;
    findings.push_back(
        {level,
         "the rights of the service accounts of mgpu were not checked: " + facts.rights.problem(),
         kOtherUserForReviews});
    return findings;
  }
  for (const Right& right : facts.rights.value()) {
    if (right.allowed) continue;
    add_grouped(findings, right.description, Level::kError,
                fmt::format("the service account {} lacks rights", right.account),
                make_again(facts, right.file));
  }
  return or_ok(std::move(findings), "the service accounts of mgpu have their rights");
}

Findings check_policies(const Facts& facts) {
  Findings findings;
  if (facts.is_nowhere()) return findings;
  const bool too_old = facts.server.known() && facts.server.value() < Version{1, 30, 0};
  if (too_old || facts.policies.absent()) {
    return {{Level::kWarning,
             "the API server has no ValidatingAdmissionPolicies, which need Kubernetes 1.30, so "
             "that users who may patch pods can edit the cards of a pod",
             kUpgradeForPolicies}};
  }
  if (!known_or_add(facts.policies, findings)) return findings;
  known_or_add(facts.policy_bindings, findings);
  for (const ExpectedPolicy& expected : kPolicies) check_policy(facts, expected, findings);
  if (!facts.extender_flag("--endpoints-of").empty()) {
    check_policy(facts, kEndpointsPolicy, findings);
  }
  return or_ok(std::move(findings), "the admission policies are present and deny");
}

}  // namespace mgpu::kubectl
