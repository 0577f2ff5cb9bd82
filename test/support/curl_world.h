// A CurlTransport with an executor of its own, for a server in the test.
#pragma once

#include <memory>
#include <string>

#include "common/base/asio_executor.h"
#include "common/kube/curl/curl_transport.h"

namespace mgpu::test {

class CurlWorld {
 public:
  // Fails the test if the transport cannot be created.
  explicit CurlWorld(kube::Config config);
  ~CurlWorld();

  kube::Transport& transport() { return *transport_; }
  AsioExecutor& executor() { return executor_; }
  // Destroys the transport on the executor, and waits for it.
  void destroy_transport();

 private:
  AsioExecutor executor_;
  std::unique_ptr<kube::CurlTransport> transport_;
};

kube::Config config_for(std::uint16_t port, const std::string& scheme = "http");
kube::Request get_of(std::string target);

}  // namespace mgpu::test
