// The API server that a command uses, and blocking calls to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/asio_executor.h"
#include "common/base/options.h"
#include "common/base/result.h"
#include "common/kube/config/config.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"
#include "extender/kubectl/fact.h"
#include "extender/kubectl/port_forward.h"

namespace mgpu::kubectl {

struct ClusterFlags {
  std::string kubeconfig{};
  std::string context{};
  std::string as{};  // empty: the user of the kubeconfig
  std::vector<std::string> as_groups{};
  Duration request_timeout{10'000};
};

// --kubeconfig, --context, --as, --as-group and --request-timeout, which every command for a
// cluster has.
void add_cluster_flags(Options& options, ClusterFlags& flags);

// Calls from one thread, which is not that of the transport's executor.
class Api {
 public:
  // `transport` outlives it.
  Api(kube::Transport& transport, Duration timeout) : transport_(&transport), timeout_(timeout) {}
  // There is no API server: each answer is this failure.
  explicit Api(std::string problem) : problem_(std::move(problem)) {}

  kube::Response call(kube::Request request);
  // Sends at most kRequestsAtOnce at a time. The answers are in the order of the requests.
  std::vector<kube::Response> call_all(std::vector<kube::Request> requests);
  // The body of the answer to a GET. `what` begins the sentence of a problem: "list nodes".
  Fact<std::string> get(const std::string& target, const std::string& what);
  // Calls `visit` with the text of each object of a collection, page by page.
  Fact<std::size_t> list(const kube::Resource& resource, const std::string& what,
                         const std::function<void(const std::string& object)>& visit);

 private:
  kube::Transport* const transport_ = nullptr;
  const Duration timeout_{};
  const std::string problem_{};
};

// The body of an answer, or why there is none.
Fact<std::string> body_of(const kube::Response& response, const std::string& what);

// A connection to the API server of a kubeconfig.
class Cluster {
 public:
  // Errors: no API server is configured, or its credentials cannot be read. With a `url` of the
  // extender and without a kubeconfig that is named, the error is that of each call of api().
  static Result<std::unique_ptr<Cluster>> connect(const ClusterFlags& flags,
                                                  const std::string& url = "");
  ~Cluster();

  Api& api() { return *api_; }
  const kube::Config& config() const { return config_; }
  // The time in which programs in the cluster must answer, too.
  Duration timeout() const { return flags_.request_timeout; }
  // Forwards to a port of a pod from `local` or any free port, as the same user. Errors: see
  // PortForward.
  Result<std::unique_ptr<PortForward>> forward(const PodRef& pod, std::int64_t port,
                                               std::int64_t local = 0) const;

 private:
  explicit Cluster(ClusterFlags flags) : flags_(std::move(flags)) {}

  const ClusterFlags flags_;
  kube::Config config_;
  AsioExecutor executor_;
  std::unique_ptr<kube::Transport> transport_;
  std::optional<Api> api_;  // set by connect()
};

}  // namespace mgpu::kubectl
