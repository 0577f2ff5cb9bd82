#include <fmt/format.h>

#include <array>
#include <initializer_list>

#include "common/kube/objects/reviews.h"
#include "extender/kubectl/doctor/collect.h"

namespace mgpu::kubectl {
namespace {

// A right in deploy/rbac.
struct NeededRight {
  const char* verb;
  const char* group;
  const char* resource;
  const char* subresource = "";
  bool namespaced = false;  // in the namespace of the installation only
};

constexpr const char* kExtenderFile = "extender.yaml";
constexpr const char* kCertificatesFile = "extender-certificates.yaml";
constexpr const char* kEndpointsFile = "extender-endpoints.yaml";
constexpr std::array<NeededRight, 15> kExtenderRights{{
    {"list", "", "nodes"},
    {"watch", "", "nodes"},
    {"get", "", "pods"},
    {"list", "", "pods"},
    {"watch", "", "pods"},
    {"create", "", "pods", "binding"},
    {"patch", "", "pods", "status"},
    {"create", "", "events"},
    {"patch", "", "events"},
    {"list", "policy", "poddisruptionbudgets"},
    {"watch", "policy", "poddisruptionbudgets"},
    {"create", "authentication.k8s.io", "tokenreviews"},
    {"create", "authorization.k8s.io", "subjectaccessreviews"},
    {"create", "storage.k8s.io", "csistoragecapacities", "", true},
    {"create", "coordination.k8s.io", "leases", "", true},
}};

constexpr const char* kPluginFile = "device-plugin.yaml";
constexpr std::array<NeededRight, 13> kPluginRights{{
    {"get", "", "nodes"},
    {"list", "", "nodes"},
    {"watch", "", "nodes"},
    {"patch", "", "nodes"},
    {"patch", "", "nodes", "status"},
    {"get", "", "pods"},
    {"list", "", "pods"},
    {"watch", "", "pods"},
    {"create", "", "events"},
    {"patch", "", "events"},
    {"list", "resource.k8s.io", "resourceslices"},
    {"create", "authentication.k8s.io", "tokenreviews"},
    {"create", "authorization.k8s.io", "subjectaccessreviews"},
}};

struct Question {
  Right right;
  kube::Request request;
};

class Questions {
 public:
  explicit Questions(const std::string& name_space) : name_space_(name_space) {}

  void add(const std::string& account, const char* file, const kube::ResourceAccess& access) {
    const std::string slash = access.subresource.empty() ? "" : "/";
    const std::string name = access.name.empty() ? "" : " " + access.name;
    asked_.push_back({{.account = name_space_ + "/" + account,
                       .description = fmt::format("{} {}{}{}{}", access.verb, access.resource,
                                                  slash, access.subresource, name),
                       .file = file},
                      kube::review_access(service_account_user(name_space_, account), access)});
  }

  void add(const std::string& account, const char* file, const NeededRight& needed) {
    add(account, file,
        kube::ResourceAccess{.verb = needed.verb,
                             .group = needed.group,
                             .resource = needed.resource,
                             .subresource = needed.subresource,
                             .name_space = needed.namespaced ? name_space_ : ""});
  }

  // The rights to one object that the extender reads or writes. `object` is "namespace/name", or
  // empty where the extender has no such object.
  void add(const std::string& account, const char* file, std::initializer_list<const char*> verbs,
           const char* group, const char* resource, const std::string& object) {
    const std::size_t slash = object.find('/');
    if (slash == std::string::npos) return;
    for (const char* verb : verbs) {
      add(account, file,
          kube::ResourceAccess{.verb = verb,
                               .group = group,
                               .resource = resource,
                               .name_space = object.substr(0, slash),
                               .name = object.substr(slash + 1)});
    }
  }

  std::vector<Question> take() { return std::move(asked_); }

 private:
  const std::string name_space_;
  std::vector<Question> asked_;
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
  Questions questions(facts.name_space);
  const std::string extender = account_of(facts.extender_pods, kExtenderAccount);
  for (const NeededRight& right : kExtenderRights) questions.add(extender, kExtenderFile, right);
  questions.add(extender, kExtenderFile, {"get", "list", "watch", "update"}, "coordination.k8s.io",
                "leases", facts.name_space + "/" + facts.lease_name);
  questions.add(extender, kCertificatesFile, {"get", "patch"}, "", "secrets",
                facts.extender_flag("--tls-secret"));
  const std::string service = facts.extender_flag("--endpoints-of");
  questions.add(extender, kEndpointsFile, {"get"}, "", "services", service);
  questions.add(extender, kEndpointsFile, {"get", "update"}, "discovery.k8s.io", "endpointslices",
                service);
  const std::string plugin = account_of(facts.plugin_pods, "mgpu-device-plugin");
  for (const NeededRight& right : kPluginRights) questions.add(plugin, kPluginFile, right);

  auto asked = questions.take();
  std::vector<kube::Request> requests;
  for (Question& question : asked) requests.push_back(std::move(question.request));
  const auto responses = api.call_all(std::move(requests));
  std::vector<Right> rights;
  for (std::size_t i = 0; i < responses.size(); ++i) {
    const auto body = body_of(responses[i], "create SubjectAccessReviews");
    if (!body.known()) return body.as<std::vector<Right>>();
    const auto allowed = kube::read_access_review(body.value());
    if (!allowed) return {Missing::kFailed, "SubjectAccessReview: " + allowed.error().message};
    asked[i].right.allowed = *allowed;
    rights.push_back(asked[i].right);
  }
  return rights;
}

}  // namespace mgpu::kubectl
