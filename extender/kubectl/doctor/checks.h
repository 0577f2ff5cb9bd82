// The checks of `kubectl mgpu doctor`: from facts to findings. Pure. Where a fact is not known, the
// check reports this, and the other checks go on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "extender/kubectl/doctor/facts.h"
#include "extender/kubectl/doctor/finding.h"

namespace mgpu::kubectl {

struct Check {
  const char* name;
  Findings (*run)(const Facts& facts);
};

// In the order of the output.
const std::vector<Check>& all_checks();
// What several checks could not read is reported once.
std::vector<CheckReport> run_checks(const Facts& facts);

Findings check_api_server(const Facts& facts);
Findings check_clock(const Facts& facts);
Findings check_objects(const Facts& facts);
Findings check_installation(const Facts& facts);
Findings check_rights(const Facts& facts);
Findings check_policies(const Facts& facts);
Findings check_extender(const Facts& facts);
Findings check_versions(const Facts& facts);
Findings check_leader(const Facts& facts);
Findings check_endpoints(const Facts& facts);
Findings check_certificates(const Facts& facts);
Findings check_scheduler(const Facts& facts);
Findings check_nodes(const Facts& facts);
Findings check_kubelets(const Facts& facts);
Findings check_pods(const Facts& facts);

// --- for the checks ------------------------------------------------------------------------------

// Why a fact is not known, and what to do about that.
Finding missing_fact(Missing why, const std::string& problem);

template <class T>
bool known_or_add(const Fact<T>& fact, Findings& findings) {
  if (!fact.known()) add_grouped(findings, missing_fact(fact.missing(), fact.problem()));
  return fact.known();
}

// How the objects of a file of deploy/rbac are made again.
Advice make_again(const Facts& facts, const std::string& file);

// "1 pod", "2 pods"
std::string count_text(std::size_t count, const std::string& noun);

// `findings`, or if there are none, `sentence` as what was found.
Findings or_ok(Findings findings, std::string sentence);

// Whether the node has cards, by its labels and annotations.
bool has_cards(const NodeFacts& node, const Contract& contract);

// Whether the pod has annotations that say which cards it has.
bool has_placement_annotation(const kube::Pod& pod, const Contract& contract);

// The pod of mgpu that has this identity (extender/process_identity.h); null: none.
const ProgramPod* pod_of_holder(const std::vector<ProgramPod>& pods, std::string_view holder);

// The sum of the samples of this name with this label; without the label where that is empty.
double sum_of(const MetricSamples& samples, std::string_view name, std::string_view label = {},
              std::string_view value = {});

}  // namespace mgpu::kubectl
