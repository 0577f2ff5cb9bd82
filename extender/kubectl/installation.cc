#include "extender/kubectl/installation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "common/kube/objects/reviews.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// Those of the chart and of installations by hand, for users who may not list the pods of all
// namespaces.
constexpr const char* kChartNamespace = "mgpu-system";
constexpr const char* kHandNamespace = "kube-system";

struct Place {
  std::string name_space;
  std::string account = kExtenderAccount;
  bool has_pods = false;
  bool may_bind = false;

  // A Lease alone is what an installation leaves.
  int strength() const { return (may_bind ? 2 : 0) + (has_pods ? 1 : 0); }
};

// By namespace.
std::map<std::string, Place> places_with_objects(Api& api, const std::string& lease_name) {
  std::map<std::string, Place> places;
  const auto add_pod = [&](const std::string& text) {
    const auto pod = read_program_pod(text);
    if (!pod || pod->has_ended() || !(pod->is_extender() || pod->is_plugin())) return;
    Place& place = places[pod->ref.name_space];
    place.has_pods = true;
    if (pod->is_extender() && !pod->service_account.empty()) place.account = pod->service_account;
  };
  const auto add_lease = [&](const std::string& text) {
    if (const auto name_space = read_namespace(text)) places.try_emplace(*name_space);
  };
  for (const std::string& scope : {std::string(), fmt::format("/namespaces/{}", kChartNamespace),
                                   fmt::format("/namespaces/{}", kHandNamespace)}) {
    const auto pods = api.list({fmt::format("/api/v1{}/pods", scope), "", kProgramLabels},
                               "list pods of mgpu", add_pod);
    const auto leases = api.list({fmt::format("/apis/coordination.k8s.io/v1{}/leases", scope),
                                  "metadata.name=" + lease_name},
                                 "list Leases", add_lease);
    if (scope.empty() && pods.known() && leases.known()) break;
  }
  return places;
}

// The best first. Without the right to ask, no account is known to have it.
std::vector<Place> find_places(Api& api, const std::string& lease_name) {
  std::vector<Place> places;
  std::vector<kube::Request> requests;
  for (auto& [name_space, place] : places_with_objects(api, lease_name)) {
    if (places.size() == kNamespacesAskedMax) break;
    place.name_space = name_space;
    requests.push_back(kube::review_access(
        service_account_user(name_space, place.account),
        {.verb = "create", .group = "", .resource = "pods", .subresource = "binding"}));
    places.push_back(std::move(place));
  }
  const auto responses = api.call_all(std::move(requests));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto allowed = kube::read_access_review(responses[i].body);
    places[i].may_bind = responses[i].ok() && allowed && *allowed;
  }
  std::ranges::stable_sort(places, {}, [](const Place& place) {
    return std::tuple(-place.strength(), place.name_space != kChartNamespace,
                      place.name_space != kHandNamespace);
  });
  return places;
}

}  // namespace

Fact<std::vector<ProgramPod>> running_programs(Api& api, const std::string& name_space,
                                               const std::string& what) {
  std::vector<ProgramPod> pods;
  const auto listed =
      api.list({fmt::format("/api/v1/namespaces/{}/pods", name_space), "", kProgramLabels},
               fmt::format("{} in namespace {}", what, name_space), [&](const std::string& text) {
                 auto pod = read_program_pod(text);
                 if (pod && pod->phase == "Running") pods.push_back(*std::move(pod));
               });
  if (!listed.known()) return listed.as<std::vector<ProgramPod>>();
  return pods;
}

Installation find_installation(Api& api, const std::string& given, const std::string& lease_name) {
  const std::vector<Place> places = find_places(api, lease_name);
  const std::string nowhere = given.empty() ? kChartNamespace : given;
  const std::string chosen = given.empty() && !places.empty() ? places[0].name_space : nowhere;
  const auto here = std::ranges::find(places, chosen, &Place::name_space);
  const Place place = here == places.end() ? Place{.name_space = chosen} : *here;
  Installation found{.name_space = chosen, .account = place.account};
  found.found = here != places.end();
  found.takes_tokens = !given.empty() || place.may_bind || chosen == kHandNamespace;
  const int least = found.found || places.empty() ? place.strength() : places[0].strength();
  for (const Place& other : places) {
    const bool counts = other.strength() >= least;
    if (counts && other.name_space != chosen) found.elsewhere.push_back(other.name_space);
  }
  return found;
}

Installation installation_at(Api& api, const std::string& given, const std::string& lease_name) {
  if (given.empty()) return find_installation(api, given, lease_name);
  return {.name_space = given, .takes_tokens = true};
}

}  // namespace mgpu::kubectl
