// Which connections a server accepts when it has many. Pure; any thread.
//
// A new connection is accepted while there are fewer than `total`, and fewer than `per_address` of
// its address. Otherwise it takes the place of a connection that waits for its client, so that idle
// clients never exclude others: of one that has not been served yet, before one that has; of these,
// of the one that has waited longest. A connection of a trusted client, which has presented a
// certificate with an allowed name, is not closed for others, and does not count for its address.
// The clients of a loopback address have no limit of their own.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace mgpu::http {

struct OpenConnection {
  std::string address;  // of the client
  bool trusted = false;
  bool waiting = true;   // for the handshake or a request; false while a request is handled
  bool served = false;   // at least one request was answered
  bool closing = false;  // it was chosen to be closed
  std::chrono::steady_clock::time_point waiting_since{};
};

struct ConnectionLimits {
  std::size_t total = 0;
  std::size_t per_address = 0;
};

struct Admission {
  const char* refused = nullptr;        // the reason, for metrics; null: the connection is accepted
  std::optional<std::size_t> closes{};  // the index of the connection whose place it takes
};

Admission admit(const std::string& address, const std::vector<OpenConnection>& open,
                const ConnectionLimits& limits);

}  // namespace mgpu::http
