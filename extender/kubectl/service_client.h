// Requests to the inspection listener of an extender, through a forwarded port or at a URL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/port_forward.h"

namespace mgpu::kubectl {

// How the credentials of the kubeconfig may be used.
struct ServiceAddress {
  std::string url;      // "http://127.0.0.1:40123", no trailing slash
  std::string ca_file;  // for https; empty: the system's roots
  // The connection is a tunnel that the API server has made to a pod of the extender. Then its
  // certificate need not have the name 127.0.0.1, and is not verified.
  bool tunnel = false;
  // False for programs of nodes: whoever controls a node answers for them, and could obtain the
  // token.
  bool takes_token = true;
};

// Whether the token of the kubeconfig may be sent there: where the listener may have it at all,
// through a tunnel, over https, or to this machine.
bool may_send_token(const ServiceAddress& address);

class ServiceClient {
 public:
  // `config` has the credentials. Errors: the URL or a file is not valid.
  static Result<std::unique_ptr<ServiceClient>> create(const ServiceAddress& address,
                                                       const kube::Config& config,
                                                       Duration timeout);
  // Connects through kubectl port-forward. Errors: it does not start, or nothing answers on that
  // port.
  static Result<std::unique_ptr<ServiceClient>> to_pod(const Cluster& cluster, const PodRef& pod,
                                                       std::int64_t port, bool takes_token);
  ~ServiceClient();

  // Sends GET without credentials; if the listener requires them and they may be sent, again with
  // them. The body of an error is one, too, if `any_status` is true.
  Fact<std::string> get(const std::string& path, const std::string& what, bool any_status = false);
  // The answer to any request, in the same way.
  kube::Response call(const kube::Request& request);

 private:
  ServiceClient(kube::Config credentials, Duration timeout)
      : credentials_(std::move(credentials)), timeout_(timeout) {}

  kube::Transport* with_token();

  const kube::Config credentials_;  // with the address of the listener
  const Duration timeout_;
  std::unique_ptr<PortForward> forward_;
  AsioExecutor executor_;
  bool may_send_token_ = false;
  std::unique_ptr<kube::Transport> plain_;
  // Made when it is needed, because a credential plugin may ask the user to log in.
  std::unique_ptr<kube::Transport> with_token_;
};

}  // namespace mgpu::kubectl
