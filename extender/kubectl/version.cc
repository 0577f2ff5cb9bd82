// kubectl mgpu version
#include "common/base/version.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "common/base/text.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/installation.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

constexpr const char* kExtender = "mgpu-extender";

// How many pods have which version, by the program.
using Versions = std::map<std::string, std::map<std::string, std::int64_t>>;

Result<Versions> versions_of_pods(Api& api, const std::string& name_space) {
  const auto pods = running_programs(api, name_space, "list the pods of mgpu");
  if (!pods.known()) return error(pods.problem());
  Versions versions;
  for (const ProgramPod& pod : pods.value()) {
    if (!pod.is_extender() && !pod.is_plugin()) continue;
    ++versions[pod.is_extender() ? kExtender : "mgpu-device-plugin"][pod.version];
  }
  if (versions.empty()) return error("no pod of mgpu runs in namespace " + name_space);
  return versions;
}

// About two versions that do not work together; empty if there are none.
std::string skew_of(const Versions& versions) {
  std::vector<std::pair<std::string, std::string>> all = {{"kubectl mgpu", MGPU_VERSION}};
  for (const auto& [program, pods] : versions) {
    for (const auto& [version, count] : pods)
      if (!version.empty()) all.emplace_back(program, version);
  }
  for (const auto& [program, version] : all) {
    for (const auto& [other, its] : all) {
      if (fit_together(version, its)) continue;
      return fmt::format(
          "{} {} and {} {} do not work together: their minor versions may differ by one; "
          "kubectl mgpu doctor names the pods",
          program, version, other, its);
    }
  }
  return "";
}

class VersionVerb {
 public:
  void add_flags(Options& options) {
    add_output_flag(options, output_, {"table", "json", "yaml"});
    add_mgpu_namespace_flag(options, "mgpu-namespace", name_space_);
    add_cluster_flags(options, access_);
  }
  Result<int> run(Console& console) const {
    const auto versions = read();
    Json json = {{"version", MGPU_VERSION}, {"commit", kBuildCommit}};
    std::string text = version_text() + "\n";
    for (const auto& [program, pods] : versions ? *versions : Versions()) {
      for (const auto& [version, count] : pods) {
        text += fmt::format(
            "{} {} in {}\n", program,
            version.empty() ? "of unknown version" : sanitize_for_terminal(version, kShownNameMax),
            counted(count, "pod"));
        json[program == kExtender ? "extender" : "devicePlugin"].push_back(
            {{"version", version}, {"pods", count}});
      }
    }
    print_as(output_, json, text, console);
    if (!versions) return versions.error();
    const std::string skew = skew_of(*versions);
    return skew.empty() ? kSucceeded : fail(console, skew);
  }

 private:
  Result<Versions> read() const {
    const auto cluster = Cluster::connect(access_);
    if (!cluster) return cluster.error();
    Api& api = (*cluster)->api();
    const auto here = installation_at(api, name_space_, ExtenderFlags().lease_name);
    return versions_of_pods(api, here.name_space);
  }

  ClusterFlags access_;
  std::string name_space_;
  std::string output_;
};

}  // namespace

Run add_version(Options& options) {
  return add_command<VersionVerb>(options);
}

}  // namespace mgpu::kubectl
