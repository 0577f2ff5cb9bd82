// Where mgpu is installed, and how its objects are made again without harm to another installation.
#include <fmt/format.h>

#include "extender/kubectl/doctor/checks.h"

namespace mgpu::kubectl {
namespace {

std::string installer_text(const Facts& facts) {
  if (!facts.installer.known()) return "";
  switch (facts.installer->kind) {
    case Installer::Kind::kHelm:
      return fmt::format(", by helm as the release {}", facts.installer->release);
    case Installer::Kind::kManifests:
      return ", by deploy/manifests";
    case Installer::Kind::kFiles:
      break;
  }
  return ", by the files of deploy/rbac";
}

}  // namespace

Findings check_installation(const Facts& facts) {
  if (facts.is_elsewhere()) {
    return {{Level::kError,
             fmt::format("mgpu is not installed in namespace {}, and is in others, so that nothing "
                         "else was checked",
                         facts.name_space),
             "kubectl mgpu doctor --namespace NAMESPACE, with one of these, or without --namespace",
             facts.elsewhere}};
  }
  Findings findings;
  if (!facts.elsewhere.empty()) {
    findings.push_back(
        {Level::kWarning,
         fmt::format("namespace {} was checked, and other namespaces have pods or the Lease of "
                     "mgpu, which can have one installation in a cluster",
                     facts.name_space),
         "kubectl mgpu doctor --namespace NAMESPACE checks another one; remove all but one, and "
         "then install the one that stays again, because they share ClusterRoles and policies",
         facts.elsewhere});
  }
  if (facts.found_here && !facts.takes_tokens) {
    findings.push_back(
        {Level::kNote,
         fmt::format("it is not known that the service account of the extender in namespace {} may "
                     "bind pods, so that its pods did not get the token of this user",
                     facts.name_space),
         fmt::format("kubectl mgpu doctor --namespace {}, if this is your installation",
                     facts.name_space)});
  }
  if (!facts.found_here) return findings;
  return or_ok(std::move(findings),
               fmt::format("mgpu is in namespace {}{}", facts.name_space, installer_text(facts)));
}

// The files of deploy/rbac are for an installation without the chart in kube-system. Elsewhere they
// would take the rights from the service accounts that have them.
std::string make_again(const Facts& facts, const std::string& file) {
  if (!facts.elsewhere.empty()) {
    return "leave one installation in the cluster first: see the finding about the installation";
  }
  if (!facts.installer.known()) {
    return fmt::format("install it again as it was installed; deploy/rbac/{} has what is missing",
                       file);
  }
  switch (facts.installer->kind) {
    case Installer::Kind::kHelm:
      return fmt::format(
          "helm upgrade {} deploy/chart --namespace {} --reset-then-reuse-values --wait --set "
          "policies.enabled=true, with the chart of the installed version",
          facts.installer->release, facts.name_space);
    case Installer::Kind::kManifests:
      return "kubectl apply -k FOLDER, with the kustomization.yaml of the installation";
    case Installer::Kind::kFiles:
      break;
  }
  if (facts.name_space == "kube-system")
    return fmt::format("kubectl apply -f deploy/rbac/{}", file);
  return fmt::format("sed 's/kube-system/{}/' deploy/rbac/{} | kubectl apply -f -",
                     facts.name_space, file);
}

}  // namespace mgpu::kubectl
