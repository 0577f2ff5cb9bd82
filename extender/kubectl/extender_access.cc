#include "extender/kubectl/extender_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/installation.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr int kForbiddenAnswer = 403;
constexpr int kUnauthorizedAnswer = 401;
constexpr int kNotFoundAnswer = 404;

struct RunningExtender {
  ProgramPod pod;
  bool leads = false;
};

// The pods of the extender, the holder of the Lease first, then the ready ones.
Result<std::vector<RunningExtender>> extender_pods(Api& api, const std::string& name_space,
                                                   const std::string& lease_name) {
  const auto running = running_programs(api, name_space, "list the pods of the extender");
  if (!running.known()) return error(running.problem());
  std::vector<RunningExtender> pods;
  for (const ProgramPod& pod : running.value())
    if (pod.is_extender() && !pod.being_deleted) pods.push_back({pod});
  const auto lease =
      read_fact(api.get(fmt::format("/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}",
                                    name_space, lease_name),
                        "get the Lease"),
                "Lease", read_lease_facts);
  const std::string holder = lease.known() ? lease->holder : "";
  // "mgpu-extender-1_0123456789abcdef"; in the network of its node the name of the node is first.
  for (RunningExtender& one : pods) {
    one.leads = holder.starts_with(one.pod.ref.name + "_") ||
                (!one.pod.node.empty() && holder.starts_with(one.pod.node + "_"));
  }
  const auto rank = [](const RunningExtender& one) {
    return one.leads ? 0 : one.pod.ready ? 1 : 2;
  };
  std::ranges::stable_sort(pods, {}, rank);
  return pods;
}

// {"error": "..."}; empty if it is something else.
std::string error_in(const std::string& body) {
  const auto json = Json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_string()) return {};
  return json["error"].get<std::string>();
}

// Says which role permits what the API server has refused.
Error with_role(const Error& failure) {
  if (!is_forbidden(failure)) return failure;
  return error(failure.message +
               "; the ClusterRole mgpu-viewer permits it, bound by a RoleBinding there");
}

}  // namespace

bool is_forbidden(const Error& failure) {
  return failure.message.find(" is forbidden: User ") != std::string::npos;
}

Result<void> check_name(const std::string& flag, const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  const bool good = !name.empty() && name.size() <= kShownNameMax &&
                    std::ranges::all_of(name, is_allowed) && name.front() != '.' &&
                    name.front() != '-';
  if (good) return {};
  return error(fmt::format("{} must be a name of a-z, 0-9, \"-\" and \".\", found {}", flag,
                           in_quotes(name)));
}

Result<void> check_url(const std::string& flag, const std::string& url) {
  if (url.starts_with("http://") || url.starts_with("https://")) return {};
  return error(flag + " must begin with http:// or https://, found " + in_quotes(url));
}

void add_mgpu_namespace_flag(Options& options, const std::string& name, std::string& name_space) {
  name_space = environment_variable("MGPU_NAMESPACE");
  options.add_text(name,
                   "Namespace of mgpu. If empty, it is found; $MGPU_NAMESPACE sets the default.",
                   name_space);
  options.check([&name_space, flag = "--" + name.substr(name.find(',') + 1)]() -> Result<void> {
    return name_space.empty() ? Result<void>() : check_name(flag, name_space);
  });
}

void add_extender_pod_flags(Options& options, ExtenderFlags& flags) {
  options.add_number("metrics-port", "Port of the inspection listener in the extender's pods.",
                     flags.port, 1, 65535);
  options.add_text("lease-name", "Name of the Lease that the extender holds.", flags.lease_name);
  options.check([&flags] { return check_name("--lease-name", flags.lease_name); });
}

void add_listener_flags(Options& options, ExtenderFlags& flags, const std::string& pods) {
  options.add_text("url",
                   fmt::format("URL of the extender's inspection listener, such as "
                               "http://127.0.0.1:9802. If empty, kubectl port-forward connects to "
                               "{} of the extender.",
                               pods),
                   flags.url);
  options.add_text("url-certificate-authority",
                   "File with the PEM certificates that a --url with https is verified with. If "
                   "empty, those of the system are used.",
                   flags.ca_file);
  add_extender_pod_flags(options, flags);
  options.check(
      [&flags] { return flags.url.empty() ? Result<void>() : check_url("--url", flags.url); });
}

void add_extender_flags(Options& options, ExtenderFlags& flags) {
  add_mgpu_namespace_flag(options, "mgpu-namespace", flags.name_space);
  add_listener_flags(options, flags, "a pod");
}

Result<ExtenderPod> find_extender_pod(Api& api, const ExtenderFlags& flags) {
  const Installation here = installation_at(api, flags.name_space, flags.lease_name);
  const auto pods = extender_pods(api, here.name_space, flags.lease_name);
  if (!pods) return pods.error();
  if (!pods->empty()) {
    // A kubelet can create pods of its own node with any labels, but without a service account.
    // Only the pod that leads gets the token.
    const RunningExtender& first = pods->front();
    const bool is_trusted = first.leads && !first.pod.service_account.empty();
    return ExtenderPod{first.pod.ref, is_trusted && here.takes_tokens};
  }
  const auto there = find_installation(api, flags.name_space, flags.lease_name).elsewhere;
  return error(fmt::format(
      "no pod of mgpu-extender runs in namespace {}{}", here.name_space,
      there.empty() ? "; kubectl mgpu doctor finds the cause, and $MGPU_NAMESPACE names another one"
                    : fmt::format("; mgpu is in namespace {}", fmt::join(there, ", "))));
}

Result<std::unique_ptr<Extender>> Extender::connect(Cluster& cluster, const ExtenderFlags& flags) {
  std::unique_ptr<Extender> extender(new Extender());
  if (!flags.url.empty()) {
    auto client =
        ServiceClient::create({flags.url, flags.ca_file}, cluster.config(), cluster.timeout());
    if (!client) return error("--url: " + client.error().message);
    extender->client_ = std::move(*client);
    return extender;
  }
  const auto pod = find_extender_pod(cluster.api(), flags);
  if (!pod) return with_role(pod.error());
  auto client = ServiceClient::to_pod(cluster, pod->ref, flags.port, pod->takes_token);
  if (!client) return with_role(client.error());
  extender->client_ = std::move(*client);
  return extender;
}

Result<Json> Extender::read(const kube::Response& response, const std::string& path,
                            const std::string& what) const {
  if (response.ok()) {
    auto json = Json::parse(response.body, nullptr, false);
    if (json.is_object()) return json;
    return error(what + ": the answer of the extender is not a JSON object");
  }
  const std::string sentence = error_in(response.body);
  if (response.status == kNotFoundAnswer && sentence.starts_with("path ")) {
    return error(
        fmt::format("{}: the extender has no {}, so that it is older than this program "
                    "({}); update it",
                    what, path.substr(0, path.find('?')), MGPU_VERSION));
  }
  if (response.status == kUnauthorizedAnswer || response.status == kForbiddenAnswer) {
    // A namespace that was found may be a tenant's, and does not get the token.
    return error(fmt::format("{}: the extender answers {} {}; {}", what, response.status, sentence,
                             response.status == kForbiddenAnswer
                                 ? "the ClusterRole mgpu-inspection-reader permits it"
                                 : "the token of the kubeconfig is sent to pods of "
                                   "--mgpu-namespace, and to a --url with https"));
  }
  if (!sentence.empty()) return error(fmt::format("{}: {}", what, sentence));
  return error(body_of(response, what).problem());
}

Result<Json> Extender::get(const std::string& path, const std::string& what) {
  kube::Request request;
  request.target = path;
  return read(client_->call(request), path, what);
}

Result<Json> Extender::post(const std::string& path, std::string body, const std::string& what) {
  kube::Request request;
  request.method = kube::Method::kPost;
  request.target = path;
  request.body = std::move(body);
  request.content_type = "application/json";
  return read(client_->call(request), path, what);
}

}  // namespace mgpu::kubectl
