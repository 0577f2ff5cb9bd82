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
             kOtherNamespace, facts.elsewhere}};
  }
  Findings findings;
  if (!facts.elsewhere.empty()) {
    findings.push_back(
        {Level::kWarning,
         fmt::format("namespace {} was checked, and other namespaces have pods or the Lease of "
                     "mgpu, which can have one installation in a cluster",
                     facts.name_space),
         kOneInstallation, facts.elsewhere});
  }
  if (facts.found_here && !facts.takes_tokens) {
    findings.push_back(
        {Level::kNote,
         fmt::format("it is not known that the service account of the extender in namespace {} may "
                     "bind pods, so that its pods did not get the token of this user",
                     facts.name_space),
         Advice(kTrustNamespace, facts.name_space)});
  }
  if (!facts.found_here) return findings;
  return or_ok(std::move(findings),
               fmt::format("mgpu is in namespace {}{}", facts.name_space, installer_text(facts)));
}

// The files of deploy/rbac are for an installation without the chart in kube-system. Elsewhere they
// would take the rights from the service accounts that have them.
Advice make_again(const Facts& facts, const std::string& file) {
  if (!facts.elsewhere.empty()) return kOneInstallationFirst;
  if (!facts.installer.known()) return {kInstallAgain, file};
  switch (facts.installer->kind) {
    case Installer::Kind::kHelm:
      return {kHelmUpgrade, facts.installer->release, facts.name_space};
    case Installer::Kind::kManifests:
      return kApplyFolder;
    case Installer::Kind::kFiles:
      break;
  }
  if (facts.name_space == "kube-system") return {kApplyFile, file};
  return {kApplyFileElsewhere, facts.name_space, file};
}

}  // namespace mgpu::kubectl
