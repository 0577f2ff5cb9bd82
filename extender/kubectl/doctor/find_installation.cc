// Where mgpu is installed, and by what.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "common/kube/objects/reviews.h"
#include "extender/kubectl/doctor/collect.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

// Without the name of one, and for users who may not list the pods of all namespaces: those of the
// chart and of deploy/rbac.
constexpr const char* kChartNamespace = "mgpu-system";
constexpr const char* kFilesNamespace = "kube-system";

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
                                   fmt::format("/namespaces/{}", kFilesNamespace)}) {
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
                      place.name_space != kFilesNamespace);
  });
  return places;
}

void find_installer(Api& api, const std::string& account, Facts& facts) {
  facts.installer = read_fact(
      api.get(fmt::format("/api/v1/namespaces/{}/serviceaccounts/{}", facts.name_space, account),
              "get the service account of the extender"),
      "service account of the extender", read_installer);
}

}  // namespace

void find_installation(Api& api, Facts& facts) {
  std::vector<Place> places = find_places(api, facts.lease_name);
  const bool is_given = !facts.name_space.empty();
  if (!is_given) {
    facts.name_space = places.empty() ? kFilesNamespace : places.front().name_space;
  }
  const auto here = std::ranges::find(places, facts.name_space, &Place::name_space);
  const Place chosen = here == places.end() ? Place{.name_space = facts.name_space} : *here;
  facts.found_here = here != places.end();
  facts.takes_tokens = is_given || chosen.may_bind || chosen.name_space == kFilesNamespace;
  const int least = facts.found_here || places.empty() ? chosen.strength() : places[0].strength();
  for (const Place& place : places) {
    const bool counts = place.strength() >= least;
    if (counts && place.name_space != facts.name_space) facts.elsewhere.push_back(place.name_space);
  }
  find_installer(api, chosen.account, facts);
}

}  // namespace mgpu::kubectl
