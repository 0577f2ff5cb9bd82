// The in-memory API server and the real extender in this process, and an HTTP client for each of
// the extender's listeners.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/apiserver/api_server.h"
#include "common/base/asio_executor.h"
#include "common/kube/curl/curl_transport.h"
#include "extender/extender.h"

namespace mgpu::sim {

inline constexpr const char* kUrlPrefix = "/mgpu";

// Not thread-safe.
class EmbeddedCluster {
 public:
  EmbeddedCluster();
  ~EmbeddedCluster();
  EmbeddedCluster(const EmbeddedCluster&) = delete;
  EmbeddedCluster& operator=(const EmbeddedCluster&) = delete;

  // Starts the extender and waits until it is ready. Its verbs are on 127.0.0.1:`port` (0 = any
  // free port), and its probes, metrics, inspection and web page on `service_port`.
  Result<void> start(extender::VerbOptions options, std::uint16_t port, std::uint16_t service_port);

  kube::Transport& api_server() { return api_server_; }
  // REQUIRES for these functions: start() succeeded.
  kube::Transport& extender_client() { return *client_; }
  kube::Transport& inspection_client() { return *inspection_client_; }
  std::uint16_t port() const { return extender_->port(); }
  std::uint16_t inspection_port() const { return extender_->service_port(); }

 private:
  Result<std::unique_ptr<kube::CurlTransport>> connect(std::uint16_t port);
  Result<void> wait_ready();

  AsioExecutor cluster_executor_;
  AsioExecutor client_executor_;
  kube::MemoryApiServer api_server_;
  std::unique_ptr<kube::CurlTransport> client_;
  std::unique_ptr<kube::CurlTransport> inspection_client_;
  std::unique_ptr<extender::Extender> extender_;
};

}  // namespace mgpu::sim
