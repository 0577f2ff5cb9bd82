// A blocking HTTP client with one connection that stays open, as kube-scheduler's: what it does
// itself is the same for every server that it measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu::bench {

// One thread at a time.
class Client {
 public:
  // To 127.0.0.1.
  static Result<Client> connect(std::uint16_t port);
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // POSTs `body` and reads the whole answer. Errors: a lost connection, any status but 200.
  Result<std::string> post(std::string_view path, std::string_view body);

 private:
  struct State;
  explicit Client(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::bench
