// The API server, clocks, where mgpu is installed, the rights of its service accounts, and
// admission policies.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// --- api-server ----------------------------------------------------------------------------------

// kube-apiserver before 1.25.9 and 1.26.4 ignores the resourceVersion of a binding
// (extender/bind/precondition_check.h).
bool ignores_preconditions(const Version& server) {
  return server.major == 1 &&
         ((server.minor == 25 && server.patch < 9) || (server.minor == 26 && server.patch < 4));
}

constexpr Remedy kUpgradeServer = to_change("upgrade Kubernetes to 1.30 or later");

constexpr Rule kApiServer[] = {
    {last(Level::kError), "the API server cannot be asked for its version: {0}",
     to_change("check the kubeconfig, its context, and that this machine reaches the API server"),
     [](At at) { return when(!at.facts.server.known(), at.facts.server.problem()); }},
    {last(Level::kError),
     "the API server has version {0}, and mgpu needs Kubernetes 1.25.9, 1.26.4, 1.27 or later",
     kUpgradeServer,
     [](At at) {
       return when(at.facts.server.value() < Version{1, 25, 0, ""}, at.facts.server->text);
     }},
    {Level::kError,
     "the API server has version {0}, which ignores metadata.resourceVersion of a binding; mgpu "
     "needs Kubernetes 1.25.9, 1.26.4, 1.27 or later",
     kUpgradeServer,
     [](At at) {
       return when(ignores_preconditions(at.facts.server.value()), at.facts.server->text);
     }},
    {Level::kOk, "the API server answers, and has version {0}", kNothing,
     [](At at) { return when(true, at.facts.server->text); }},
};

// --- installation --------------------------------------------------------------------------------

std::string installer_text(const Facts& facts) {
  if (!facts.installer.known()) return "";
  if (facts.installer->release.empty()) return ", by deploy/manifests";
  return fmt::format(", by helm as the release {}", facts.installer->release);
}

Matches other_namespaces(const Facts& facts, bool holds) {
  return when(holds && !facts.elsewhere.empty(), facts.name_space).about(facts.elsewhere);
}

constexpr Rule kInstallation[] = {
    {last(Level::kError),
     "mgpu is not installed in namespace {0}, and is in others, so that nothing else was checked",
     to_run("kubectl mgpu doctor --namespace NAMESPACE, or without --namespace"),
     [](At at) { return other_namespaces(at.facts, !at.facts.found_here); }},
    {Level::kWarning,
     "namespace {0} was checked, and other namespaces have pods or the Lease of mgpu, which can "
     "have one installation in a cluster",
     to_change("remove all but one, and then install the one that stays again, because they share "
               "ClusterRoles and policies; --namespace checks another one"),
     [](At at) { return other_namespaces(at.facts, true); }},
    {Level::kNote,
     "it is not known that the service account of the extender in namespace {0} may bind pods, so "
     "that its pods did not get the token of this user",
     to_run("kubectl mgpu doctor --namespace {0}, if this is your installation"),
     [](At at) {
       return when(at.facts.found_here && !at.facts.takes_tokens, at.facts.name_space);
     }},
    {Level::kOk, "mgpu is in namespace {0}{1}", kNothing,
     [](At at) {
       return when(at.facts.found_here, at.facts.name_space, installer_text(at.facts));
     }},
};

// How rights and policies are made again. {1} is the namespace and {2} the release of helm.
constexpr Remedy kOneInstallationFirst{
    Act::kChange,
    "leave one installation in the cluster first: see the finding about the installation"};
constexpr Remedy kInstallAgain =
    to_change("install it again as it was installed, with policies and rights");
constexpr Remedy kHelmUpgrade{
    Act::kRun,
    "helm upgrade {2} deploy/chart --namespace {1} --reset-then-reuse-values --wait --set "
    "policies.enabled=true, with the chart of the installed version"};
constexpr Remedy kApplyManifest{
    Act::kRun,
    "sed 's/mgpu-system/{1}/g' deploy/manifests/mgpu.yaml | kubectl apply -f - --selector "
    "app.kubernetes.io/component=access, with the manifest of the installed version, or the one "
    "that it was installed with"};

// With another namespace the manifest would take the rights from the service accounts that have
// them.
Remedy remedy_for(const Facts& facts) {
  if (!facts.elsewhere.empty()) return kOneInstallationFirst;
  if (!facts.installer.known()) return kInstallAgain;
  return facts.installer->release.empty() ? kApplyManifest : kHelmUpgrade;
}

Matches lacks(bool holds, const Facts& facts, const std::string& object,
              const std::string& account = "") {
  return when(holds, account, facts.name_space, items(facts.installer).release)
      .about({object})
      .with(remedy_for(facts));
}

// --- clock, objects ------------------------------------------------------------------------------

constexpr Remedy kSynchronize =
    to_change("synchronize the clocks of the machines, for example with NTP");

constexpr Rule kClock[] = {
    {last(Level::kNote),
     "the API server does not report the time, so that clocks were not compared", kNothing,
     [](At at) { return when(!at.facts.clock_difference.has_value()); }},
    {Level::kWarning, "the clock of the API server is {0} s {1} the clock of this machine",
     kSynchronize,
     [](At at) {
       const auto difference = at.facts.clock_difference.value_or(std::chrono::seconds(0));
       return when(std::chrono::abs(difference) > kClockDifferenceMax,
                   std::chrono::abs(difference).count(),
                   difference.count() > 0 ? "ahead of" : "behind");
     }},
    {Level::kWarning,
     "the clock of the extender that holds the Lease is at least {0} s ahead of the clock of the "
     "API server",
     kSynchronize,
     [](At at) {
       const auto renewed = at.facts.lease.known() ? at.facts.lease->renewed : std::nullopt;
       const auto ahead = renewed.value_or(at.facts.now) - at.facts.now;
       return when(ahead > kLeaseSlack, ahead.count());
     }},
    {Level::kOk, "the clocks of this machine and of the API server agree", kNothing, always},
};

constexpr Rule kObjects[] = {
    {Level::kUnknown, "{0}", to_change("repair or delete the object"),
     [](At at) {
       return each(at.facts.unreadable, [](const auto& sentence) { return when(true, sentence); });
     }},
    {Level::kOk, "all objects that were listed can be read", kNothing, always},
};

// --- rights, policies ----------------------------------------------------------------------------

constexpr Rule kRights[] = {
    // It takes an administrator to ask about others. The extender's own log has its missing rights.
    {last(Level::kUnknown), "the rights of the service accounts of mgpu were not checked: {0}",
     to_change("use a context whose user may create subjectaccessreviews"),
     [](At at) {
       const auto& rights = at.facts.rights;
       const bool forbidden = rights.missing() == Missing::kForbidden;
       return when(!rights.known(), rights.problem())
           .as(forbidden ? Level::kNote : Level::kUnknown);
     }},
    {Level::kError, "the service account {0} lacks rights", kNothing,
     [](At at) {
       return each(items(at.facts.rights), [&](const Right& right) {
         return lacks(!right.allowed, at.facts, right.description, right.account);
       });
     }},
    {Level::kOk, "the service accounts of mgpu have their rights", kNothing, always},
};

constexpr std::string_view kEvictionsPolicy = "mgpu-extender-evictions";
constexpr std::string_view kEndpointsPolicy = "mgpu-extender-endpoints";

struct ExpectedPolicy {
  std::string_view name;
  Level level;  // if it is missing
};
constexpr std::array<ExpectedPolicy, 8> kPolicies{{
    {"mgpu-cards-of-bound-pods", Level::kError},
    {"mgpu-cards-need-a-scheduler", Level::kError},
    {"mgpu-extender-touch", Level::kWarning},
    {"mgpu-extender-events", Level::kWarning},
    {"mgpu-device-plugin-node", Level::kWarning},
    {"mgpu-device-plugin-events", Level::kWarning},
    {kEvictionsPolicy, Level::kWarning},
    {kEndpointsPolicy, Level::kWarning},
}};

// Two are about what the extender does only with some flags.
bool needed(const Facts& facts, std::string_view policy) {
  if (policy == kEvictionsPolicy) return facts.extender_flag("--preempt-by-card") != "false";
  return policy != kEndpointsPolicy || !facts.extender_flag("--endpoints-of").empty();
}

bool denies(const Facts& facts, std::string_view policy) {
  return !facts.policy_bindings.known() ||
         std::ranges::any_of(facts.policy_bindings.value(), [&](const PolicyBinding& binding) {
           return binding.policy == policy && binding.denies;
         });
}

// The policies that are absent, or those that are present and do not deny.
Matches policies_without_effect(const Facts& facts, bool absent) {
  return each(kPolicies, [&](const ExpectedPolicy& expected) {
    const bool exists = facts.policies.value().contains(std::string(expected.name));
    const bool found = absent ? !exists : exists && !denies(facts, expected.name);
    return lacks(needed(facts, expected.name) && found, facts, std::string(expected.name))
        .as(expected.level);
  });
}

constexpr Rule kPolicyRules[] = {
    {last(Level::kWarning),
     "the API server has no ValidatingAdmissionPolicies, which need Kubernetes 1.30, so that users "
     "who may patch pods can edit the cards of a pod",
     to_change("upgrade Kubernetes to 1.30 or later; deploy/SECURITY.md describes what is lost "
               "until then"),
     [](At at) {
       const auto& server = at.facts.server;
       return when(at.facts.policies.absent() ||
                   (server.known() && server.value() < Version{1, 30, 0}));
     }},
    needs<&Facts::policies>(),
    needs<&Facts::policy_bindings>(Level::kUnknown),
    {Level::kError,
     "a ValidatingAdmissionPolicy of mgpu is missing, so that the API server does not enforce it",
     kNothing, [](At at) { return policies_without_effect(at.facts, true); }},
    {Level::kError,
     "a ValidatingAdmissionPolicy of mgpu has no ValidatingAdmissionPolicyBinding with "
     "validationActions: [Deny], so that the API server does not enforce it",
     kNothing, [](At at) { return policies_without_effect(at.facts, false); }},
    {Level::kOk, "the admission policies are present and deny", kNothing, always},
};

}  // namespace

std::vector<Check> cluster_checks() {
  const auto anywhere = [](const Facts& facts) { return !facts.is_nowhere(); };
  return {{"api-server", {{Each::kInstallation, kApiServer}}},
          {"installation", {{Each::kInstallation, kInstallation}}},
          {"clock",
           {{Each::kInstallation, kClock}},
           [](const Facts& facts) { return facts.server.known() || facts.clock_difference; }},
          {"objects",
           {{Each::kInstallation, kObjects}},
           [](const Facts& facts) { return facts.server.known(); }},
          {"rights", {{Each::kInstallation, kRights}}, anywhere},
          {"policies", {{Each::kInstallation, kPolicyRules}}, anywhere}};
}

std::vector<Remedy> other_remedies() {
  return {kOtherUser, kOneInstallationFirst, kInstallAgain, kHelmUpgrade, kApplyManifest};
}

}  // namespace mgpu::kubectl
