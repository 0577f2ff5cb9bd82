// kubectl mgpu doctor
#include <fmt/format.h>

#include <utility>

#include "common/base/text.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/doctor/collect.h"
#include "extender/kubectl/doctor/report.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

class DoctorVerb {
 public:
  void add_flags(Options& options) {
    add_mgpu_namespace_flag(options, "n,namespace", extender_.name_space);
    options.add_text("l,selector", "Label selector of the nodes that are checked. If empty, all.",
                     node_selector_);
    add_listener_flags(options, extender_, "each pod");
    options.add_text("service", "Name of the Service that kube-scheduler calls.", service_);
    add_domain_flag(options, domain_);
    add_output_flag(options, output_, {"table", "json"});
    add_cluster_flags(options, cluster_);
    options.check([this] { return check_name("--service", service_); });
  }

  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(cluster_);
    if (!cluster) return cluster.error();
    const auto reports = run_checks(collect(**cluster));
    console.print(output_ == "json" ? report_json(reports) : report_table(reports, console.colors));
    return has_problems(reports) ? kFoundOrFailed : kSucceeded;
  }

 private:
  Facts collect(Cluster& cluster) {
    Facts facts;
    facts.cli_version = MGPU_VERSION;
    facts.contract = *Contract::for_domain(domain_);
    facts.name_space = extender_.name_space;
    facts.lease_name = extender_.lease_name;
    facts.service = service_;
    facts.node_selector = node_selector_;
    collect_facts(cluster.api(), clock_now, facts);
    if (facts.is_elsewhere()) return facts;
    collect_replicas(cluster, extender_, facts);
    return facts;
  }

  ClusterFlags cluster_;
  ExtenderFlags extender_;
  std::string node_selector_;
  std::string service_ = "mgpu-extender";
  std::string domain_ = std::string(kDefaultResourceDomain);
  std::string output_;
};

}  // namespace

Run add_doctor(Options& options) {
  return add_command<DoctorVerb>(options);
}

}  // namespace mgpu::kubectl
