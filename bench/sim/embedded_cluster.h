// The in-memory API server and the real extender in this process, and an HTTP client of the
// extender.
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/asio_executor.h"
#include "common/kube/curl_transport.h"
#include "common/kube/memory/api_server.h"
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

  // Starts the extender on 127.0.0.1:`port` (0 = any free port) and waits until it is ready.
  Result<void> start(extender::Settings settings, std::uint16_t port);

  kube::Transport& api_server() { return api_server_; }
  // REQUIRES for this function and port(): start() succeeded.
  kube::Transport& extender_client() { return *client_; }
  std::uint16_t port() const { return extender_->port(); }

 private:
  Result<void> wait_ready();

  AsioExecutor cluster_executor_;
  AsioExecutor client_executor_;
  kube::MemoryApiServer api_server_;
  std::unique_ptr<kube::CurlTransport> client_;
  std::unique_ptr<extender::Extender> extender_;
};

}  // namespace mgpu::sim
