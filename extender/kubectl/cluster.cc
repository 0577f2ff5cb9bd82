#include "extender/kubectl/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "common/kube/curl/curl_transport.h"
#include "common/kube/objects/object_json.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr int kUnauthorizedStatus = 401;
constexpr int kForbiddenStatus = 403;
constexpr int kNotFoundStatus = 404;

}  // namespace

void add_cluster_flags(Options& options, ClusterFlags& flags) {
  options.add_text("kubeconfig",
                   "Kubeconfig file. If empty, $KUBECONFIG is used, else the service account of "
                   "the pod, else ~/.kube/config.",
                   flags.kubeconfig);
  options.add_text("context", "Context in the kubeconfig. If empty, the current context is used.",
                   flags.context);
  options.add_text("as", "User to impersonate, as with kubectl.", flags.as);
  options.add_texts("as-group", "Group to impersonate with --as.", flags.as_groups);
  options.check([&flags]() -> Result<void> {
    if (!flags.as.empty() || flags.as_groups.empty()) return {};
    return error("--as-group needs --as");
  });
  options.add_duration("request-timeout", "Time in which the API server must answer a request.",
                       flags.request_timeout, std::chrono::seconds(1), std::chrono::minutes(5));
}

std::vector<kube::Response> Api::call_all(std::vector<kube::Request> requests) {
  if (transport_ == nullptr) {
    kube::Response none;
    none.failure = kube::TransportFailure{.message = problem_};
    return std::vector(requests.size(), none);
  }
  std::vector<kube::Response> responses;
  for (std::size_t begin = 0; begin < requests.size(); begin += kRequestsAtOnce) {
    const std::size_t end = std::min(requests.size(), begin + kRequestsAtOnce);
    std::vector<std::future<kube::Response>> answers;
    for (std::size_t i = begin; i < end; ++i) {
      const auto answer = std::make_shared<std::promise<kube::Response>>();
      answers.push_back(answer->get_future());
      requests[i].timeout = timeout_;
      transport_->send(std::move(requests[i]), [answer](kube::Response response) {
        answer->set_value(std::move(response));
      });
    }
    for (auto& answer : answers) responses.push_back(answer.get());
  }
  return responses;
}

kube::Response Api::call(kube::Request request) {
  return std::move(call_all({std::move(request)}).front());
}

Fact<std::string> body_of(const kube::Response& response, const std::string& what) {
  if (response.ok()) return response.body;
  const std::string sentence = fmt::format("{}: {}", what, kube::answer_text(response));
  const bool refused =
      response.status == kUnauthorizedStatus || response.status == kForbiddenStatus;
  if (refused) return {Missing::kForbidden, sentence};
  return {response.status == kNotFoundStatus ? Missing::kAbsent : Missing::kFailed, sentence};
}

Fact<std::string> Api::get(const std::string& target, const std::string& what) {
  kube::Request request;
  request.target = target;
  return body_of(call(std::move(request)), what);
}

Fact<std::size_t> Api::list(const kube::Resource& resource, const std::string& what,
                            const std::function<void(const std::string& object)>& visit) {
  std::size_t count = 0;
  std::string next;
  std::uint32_t limit = kube::kListPageSize;
  for (std::size_t page = 0; page < kPagesMax; ++page) {
    const kube::Response response = call(kube::list(resource, limit, next));
    if (response.failure && response.failure->too_large && limit > 1) {
      limit = std::max<std::uint32_t>(limit / kube::kPageDivisor, 1);
      continue;
    }
    const auto body = body_of(response, what);
    if (!body.known()) return body.as<std::size_t>();
    const auto read = kube::read_list_page(body.value());
    if (!read) return {Missing::kFailed, fmt::format("{}: {}", what, read.error().message)};
    std::ranges::for_each(read->items, visit);
    count += read->items.size();
    if (read->continue_token.empty()) return count;
    next = read->continue_token;
  }
  return {Missing::kFailed, fmt::format("{}: the list has over {} pages", what, kPagesMax)};
}

Result<std::unique_ptr<Cluster>> Cluster::connect(const ClusterFlags& flags,
                                                  const std::string& url) {
  auto config = kube::load_config(flags.kubeconfig, flags.context);
  std::unique_ptr<Cluster> cluster(new Cluster(flags));
  if (!config) {
    if (url.empty() || !flags.kubeconfig.empty() || !flags.context.empty()) return config.error();
    cluster->api_.emplace(config.error().message);
    return cluster;
  }
  if (!flags.as.empty()) config->headers.push_back("Impersonate-User: " + flags.as);
  for (const std::string& group : flags.as_groups)
    config->headers.push_back("Impersonate-Group: " + group);
  cluster->config_ = *config;
  auto transport = kube::CurlTransport::create(std::move(*config), cluster->executor_);
  if (!transport) return transport.error();
  cluster->transport_ = std::move(*transport);
  cluster->api_.emplace(*cluster->transport_, flags.request_timeout);
  return cluster;
}

Result<std::unique_ptr<PortForward>> Cluster::forward(const PodRef& pod, std::int64_t port,
                                                      std::int64_t local) const {
  PortForwardTarget target{.pod = pod,
                           .port = static_cast<std::uint16_t>(port),
                           .local = static_cast<std::uint16_t>(local)};
  if (!flags_.kubeconfig.empty()) target.flags.push_back("--kubeconfig=" + flags_.kubeconfig);
  if (!flags_.context.empty()) target.flags.push_back("--context=" + flags_.context);
  if (!flags_.as.empty()) target.flags.push_back("--as=" + flags_.as);
  for (const std::string& group : flags_.as_groups) target.flags.push_back("--as-group=" + group);
  return PortForward::start(target, kPortForwardTimeout);
}

Cluster::~Cluster() {
  executor_.stop();
}

}  // namespace mgpu::kubectl
