// kubectl mgpu doctor
#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "common/base/text.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/doctor/collect.h"
#include "extender/kubectl/doctor/collect_replicas.h"
#include "extender/kubectl/doctor/report.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

Time wall_clock() {
  return std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
}

Result<void> check_url(const std::string& url) {
  if (url.empty() || url.starts_with("http://") || url.starts_with("https://")) return {};
  return error("--url must begin with http:// or https://, found " + in_quotes(url));
}

class DoctorVerb {
 public:
  void add_flags(Options& options) {
    options.add_text("n,namespace",
                     "Namespace of mgpu; pods in other namespaces are not mgpu's. If empty, it is "
                     "found; $MGPU_NAMESPACE sets the default.",
                     name_space_);
    options.add_text("l,selector", "Label selector of the nodes that are checked. If empty, all.",
                     node_selector_);
    options.add_text("url",
                     "URL of the extender's inspection listener, such as http://127.0.0.1:9802. If "
                     "empty, kubectl port-forward connects to each pod of the extender.",
                     access_.url);
    options.add_text("url-certificate-authority",
                     "File with the PEM certificates that a --url with https is verified with. If "
                     "empty, those of the system are used.",
                     access_.ca_file);
    options.add_number("metrics-port", "Port of the inspection listener in the extender's pods.",
                       port_, 1, 65535);
    options.add_text("lease-name", "Name of the Lease that the extender holds.", lease_name_);
    options.add_text("service", "Name of the Service that kube-scheduler calls.", service_);
    options.add_text("resource-domain", "Domain of the resources and annotations.", domain_);
    add_output_flag(options, output_, {"table", "json"});
    add_cluster_flags(options, access_.cluster);
    options.check([this]() -> Result<void> {
      if (name_space_.empty()) return {};
      return check_name("--namespace", name_space_);
    });
    options.check([this] { return check_name("--lease-name", lease_name_); });
    options.check([this] { return check_name("--service", service_); });
    options.check([this] { return check_url(access_.url); });
    options.check([this]() -> Result<void> {
      const auto contract = Contract::for_domain(domain_);
      if (contract) return {};
      return error("--resource-domain: " + contract.error().message);
    });
  }

  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_.cluster);
    if (!cluster) return cluster.error();
    const auto reports = run_checks(collect(**cluster));
    console.print(output_ == "json" ? report_json(reports) : report_table(reports, console.colors));
    return has_problems(reports) ? kFoundOrFailed : kFine;
  }

 private:
  Facts collect(Cluster& cluster) {
    Facts facts;
    facts.cli_version = MGPU_VERSION;
    facts.contract = *Contract::for_domain(domain_);
    facts.name_space = name_space_;
    facts.lease_name = lease_name_;
    facts.service = service_;
    facts.node_selector = node_selector_;
    Api api(cluster.transport(), access_.cluster.request_timeout);
    collect_facts(api, wall_clock, facts);
    if (facts.is_elsewhere()) return facts;
    access_.port = static_cast<std::uint16_t>(port_);
    collect_replicas(cluster, access_, facts);
    return facts;
  }

  ReplicaAccess access_;
  std::string name_space_ = mgpu_namespace_of_environment();
  std::string node_selector_;
  std::string lease_name_ = "mgpu-extender";
  std::string service_ = "mgpu-extender";
  std::string domain_ = std::string(kDefaultResourceDomain);
  std::string output_;
  std::int64_t port_ = 9802;
};

}  // namespace

Run add_doctor(Options& options) {
  return add_command<DoctorVerb>(options);
}

}  // namespace mgpu::kubectl
