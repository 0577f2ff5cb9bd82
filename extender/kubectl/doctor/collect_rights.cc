#include <fmt/format.h>

#include <initializer_list>

#include "common/kube/objects/reviews.h"
#include "extender/kubectl/doctor/collect.h"

namespace mgpu::kubectl {
namespace {

struct NeededRights {
  std::initializer_list<const char*> verbs;
  const char* group;
  const char* resource;
  const char* subresource = "";
  bool namespaced = false;  // in the namespace of the installation only
};

const NeededRights kExtenderRights[] = {
    {{"list", "watch"}, "", "nodes"},
    {{"get", "list", "watch"}, "", "pods"},
    {{"create"}, "", "pods", "binding"},
    {{"patch"}, "", "pods", "status"},
    {{"create", "patch"}, "", "events"},
    {{"list", "watch"}, "policy", "poddisruptionbudgets"},
    {{"create"}, "authentication.k8s.io", "tokenreviews"},
    {{"create"}, "authorization.k8s.io", "subjectaccessreviews"},
    {{"create"}, "storage.k8s.io", "csistoragecapacities", "", true},
    {{"create"}, "coordination.k8s.io", "leases", "", true},
};
const NeededRights kPluginRights[] = {
    {{"get", "list", "watch", "patch"}, "", "nodes"},
    {{"patch"}, "", "nodes", "status"},
    {{"get", "list", "watch"}, "", "pods"},
    {{"create", "patch"}, "", "events"},
    {{"list"}, "resource.k8s.io", "resourceslices"},
    {{"create"}, "authentication.k8s.io", "tokenreviews"},
    {{"create"}, "authorization.k8s.io", "subjectaccessreviews"},
};
constexpr NeededRights kLeaseRights{
    {"get", "list", "watch", "update"}, "coordination.k8s.io", "leases"};
constexpr NeededRights kEvictionRights{{"delete"}, "", "pods"};
constexpr NeededRights kVictimGroupRights{{"get"}, "scheduling.k8s.io", "podgroups"};
constexpr NeededRights kSecretRights{{"get", "patch"}, "", "secrets"};
constexpr NeededRights kServiceRights{{"get"}, "", "services"};
constexpr NeededRights kSliceRights{{"get", "update"}, "discovery.k8s.io", "endpointslices"};

struct Questions {
  // `object` is the one object, "namespace/name", that the rights are for.
  void add(const std::string& account, const NeededRights& needed, const std::string& object = "") {
    const std::size_t slash = object.find('/');
    const bool named = slash != object.npos;
    for (const char* verb : needed.verbs) {
      const kube::ResourceAccess access{.verb = verb,
                                        .group = needed.group,
                                        .resource = needed.resource,
                                        .subresource = needed.subresource,
                                        .name_space = named               ? object.substr(0, slash)
                                                      : needed.namespaced ? name_space
                                                                          : "",
                                        .name = named ? object.substr(slash + 1) : ""};
      rights.push_back(
          {.account = name_space + "/" + account,
           .description = fmt::format("{} {}{}{}{}{}", verb, needed.resource,
                                      access.subresource.empty() ? "" : "/", access.subresource,
                                      named ? " " : "", access.name)});
      requests.push_back(kube::review_access(service_account_user(name_space, account), access));
    }
  }

  const std::string name_space;
  std::vector<Right> rights{};
  std::vector<kube::Request> requests{};
};

std::string account_of(const Fact<std::vector<ProgramPod>>& pods, const char* otherwise) {
  if (!pods.known() || pods->empty() || pods->front().service_account.empty()) return otherwise;
  return pods->front().service_account;
}

}  // namespace

kube::UserInfo service_account_user(const std::string& name_space, const std::string& account) {
  return {.name = fmt::format("system:serviceaccount:{}:{}", name_space, account),
          .uid = "",
          .groups = {"system:serviceaccounts", "system:serviceaccounts:" + name_space,
                     "system:authenticated"},
          .extra = {}};
}

Fact<std::vector<Right>> collect_rights(Api& api, const Facts& facts) {
  Questions questions{facts.name_space};
  const std::string extender = account_of(facts.extender_pods, kExtenderAccount);
  const std::string plugin = account_of(facts.plugin_pods, "mgpu-device-plugin");
  const std::string secret = facts.extender_flag("--tls-secret");
  const std::string service = facts.extender_flag("--endpoints-of");
  for (const NeededRights& rights : kExtenderRights) questions.add(extender, rights);
  questions.add(extender, kLeaseRights, facts.name_space + "/" + facts.lease_name);
  const auto is_object = [](const std::string& name) { return name.find('/') != name.npos; };
  if (facts.extender_flag("--preempt-by-card") != "false") {
    questions.add(extender, kEvictionRights);
    questions.add(extender, kVictimGroupRights);
  }
  if (is_object(secret)) questions.add(extender, kSecretRights, secret);
  if (is_object(service)) questions.add(extender, kServiceRights, service);
  if (is_object(service)) questions.add(extender, kSliceRights, service);
  for (const NeededRights& rights : kPluginRights) questions.add(plugin, rights);

  const auto responses = api.call_all(std::move(questions.requests));
  for (std::size_t i = 0; i < responses.size(); ++i) {
    const auto body = body_of(responses[i], "create SubjectAccessReviews");
    if (!body.known()) return body.as<std::vector<Right>>();
    const auto allowed = kube::read_access_review(body.value());
    if (!allowed) return {Missing::kFailed, "SubjectAccessReview: " + allowed.error().message};
    questions.rights[i].allowed = *allowed;
  }
  return std::move(questions.rights);
}

}  // namespace mgpu::kubectl
