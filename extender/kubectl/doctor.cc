// kubectl mgpu doctor
#include <chrono>
#include <utility>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/doctor/collect.h"
#include "extender/kubectl/doctor/report.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

Time wall_clock() {
  return std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
}

class DoctorVerb final : public Verb {
 public:
  std::string name() const override { return "doctor"; }
  std::string description() const override {
    return "checks the installation of mgpu, and says what to do about each finding";
  }

  void add_flags(Options& options) override {
    add_cluster_flags(options, cluster_flags_);
    add_output_flag(options, output_, {"table", "json"});
  }

  int run(Console& console) override {
    const auto cluster = Cluster::connect(cluster_flags_);
    if (!cluster) {
      console.print_error("kubectl mgpu: " + cluster.error().message + "\n");
      return kFoundOrFailed;
    }
    Facts facts;
    facts.cli_version = MGPU_VERSION;
    Api api((*cluster)->transport(), cluster_flags_.request_timeout);
    collect_facts(api, wall_clock, facts);
    const auto reports = run_checks(facts);
    console.print(output_ == "json" ? report_json(reports) : report_table(reports, console.colors));
    return has_problems(reports) ? kFoundOrFailed : kFine;
  }

 private:
  ClusterFlags cluster_flags_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Verb> doctor_verb() {
  return std::make_unique<DoctorVerb>();
}

}  // namespace mgpu::kubectl
