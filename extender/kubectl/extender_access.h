// A connection to the inspection listener of an extender, for the commands that show its state.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/output.h"
#include "extender/kubectl/service_client.h"

namespace mgpu::kubectl {

struct ExtenderFlags {
  std::string url{};
  std::string ca_file{};
  std::string name_space{};  // of mgpu; empty: it is found
  std::string lease_name = "mgpu-extender";
  std::int64_t port = 9802;
};

// --metrics-port and --lease-name.
void add_extender_pod_flags(Options& options, ExtenderFlags& flags);
// Those, --url and --url-certificate-authority. `pods`: "a pod", which is used without a URL.
void add_listener_flags(Options& options, ExtenderFlags& flags, const std::string& pods);
// Those, and --mgpu-namespace.
void add_extender_flags(Options& options, ExtenderFlags& flags);

// The namespace of mgpu: "mgpu-namespace" or "n,namespace".
void add_mgpu_namespace_flag(Options& options, const std::string& name, std::string& name_space);

// A name in the form of RFC 1123. Errors name `flag`.
Result<void> check_name(const std::string& flag, const std::string& name);
// Errors name `flag`.
Result<void> check_url(const std::string& flag, const std::string& url);

struct ExtenderPod {
  PodRef ref;
  bool takes_token = false;
};
// The pod of the extender that holds the Lease, or else one that runs. Errors: the pods cannot be
// listed; there is none, with the namespace in which mgpu is.
Result<ExtenderPod> find_extender_pod(Api& api, const ExtenderFlags& flags);

// Whether the API server has refused a request of the user, as kubectl or the transport says it.
bool is_forbidden(const Error& failure);

class Extender {
 public:
  // Connects to the URL, or by kubectl port-forward to the pod that holds the Lease, or else to any
  // that runs. Errors: there is no such pod, or it cannot be reached.
  static Result<std::unique_ptr<Extender>> connect(Cluster& cluster, const ExtenderFlags& flags);

  // What a path answers. `what` begins the sentence of an error: "read the nodes". Errors: no
  // answer; one that is an error; not JSON; an extender that does not have the path.
  Result<Json> get(const std::string& path, const std::string& what);
  Result<Json> post(const std::string& path, std::string body, const std::string& what);

 private:
  Extender() = default;
  Result<Json> read(const kube::Response& response, const std::string& path,
                    const std::string& what) const;

  std::unique_ptr<ServiceClient> client_;
};

}  // namespace mgpu::kubectl
