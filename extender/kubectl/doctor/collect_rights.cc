#include <fmt/format.h>

#include <initializer_list>

#include "common/kube/objects/reviews.h"
#include "extender/kubectl/doctor/collect.h"

namespace mgpu::kubectl {
namespace {

// Rights in a file of deploy/rbac.
struct NeededRights {
  const char* file;
  std::initializer_list<const char*> verbs;
  const char* group;
  const char* resource;
  const char* subresource = "";
  bool namespaced = false;  // in the namespace of the installation only
};

constexpr const char* kExtenderFile = "extender.yaml";
constexpr const char* kPluginFile = "device-plugin.yaml";
const NeededRights kExtenderRights[] = {
    {kExtenderFile, {"list", "watch"}, "", "nodes"},
    {kExtenderFile, {"get", "list", "watch"}, "", "pods"},
    {kExtenderFile, {"create"}, "", "pods", "binding"},
    {kExtenderFile, {"patch"}, "", "pods", "status"},
    {kExtenderFile, {"create", "patch"}, "", "events"},
    {kExtenderFile, {"list", "watch"}, "policy", "poddisruptionbudgets"},
    {kExtenderFile, {"create"}, "authentication.k8s.io", "tokenreviews"},
    {kExtenderFile, {"create"}, "authorization.k8s.io", "subjectaccessreviews"},
    {kExtenderFile, {"create"}, "storage.k8s.io", "csistoragecapacities", "", true},
    {kExtenderFile, {"create"}, "coordination.k8s.io", "leases", "", true},
};
const NeededRights kPluginRights[] = {
    {kPluginFile, {"get", "list", "watch", "patch"}, "", "nodes"},
    {kPluginFile, {"patch"}, "", "nodes", "status"},
    {kPluginFile, {"get", "list", "watch"}, "", "pods"},
    {kPluginFile, {"create", "patch"}, "", "events"},
    {kPluginFile, {"list"}, "resource.k8s.io", "resourceslices"},
    {kPluginFile, {"create"}, "authentication.k8s.io", "tokenreviews"},
    {kPluginFile, {"create"}, "authorization.k8s.io", "subjectaccessreviews"},
};
constexpr NeededRights kLeaseRights{
    kExtenderFile, {"get", "list", "watch", "update"}, "coordination.k8s.io", "leases"};
constexpr NeededRights kEvictionRights{kExtenderFile, {"delete"}, "", "pods"};
constexpr NeededRights kSecretRights{"extender-certificates.yaml", {"get", "patch"}, "", "secrets"};
constexpr NeededRights kServiceRights{"extender-endpoints.yaml", {"get"}, "", "services"};
constexpr NeededRights kSliceRights{
    "extender-endpoints.yaml", {"get", "update"}, "discovery.k8s.io", "endpointslices"};

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
                                      named ? " " : "", access.name),
           .file = needed.file});
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
  if (facts.extender_flag("--preempt-by-card") != "false") questions.add(extender, kEvictionRights);
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
