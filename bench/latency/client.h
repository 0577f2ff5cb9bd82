// A blocking HTTP client with one persistent connection, like kube-scheduler's. Its own work is the
// same for all servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu::bench {

// Not thread-safe.
class Client {
 public:
  // Connects to a port of 127.0.0.1.
  static Result<Client> connect(std::uint16_t port);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // POSTs `body` and reads the response. Errors: the connection is lost, the status is not 200.
  Result<std::string> post(std::string_view path, std::string_view body);

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::bench
