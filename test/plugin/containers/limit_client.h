// A client of LimitServer that is not mgpu-set-limits.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <string>

#include "common/base/files.h"

namespace mgpu::test {

class LimitClient {
 public:
  explicit LimitClient(const std::string& path)
      : connection_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    connected_ = ::connect(connection_.number(), reinterpret_cast<const sockaddr*>(&address),
                           sizeof address) == 0;
  }

  bool connected() const { return connected_; }
  void send(const std::string& text) const {
    ::send(connection_.number(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  // Everything until the server closes the connection; "silence" after half a minute without that.
  std::string reply() const {
    std::string all;
    char part[512];
    pollfd ready{connection_.number(), POLLIN, 0};
    while (::poll(&ready, 1, 30'000) == 1) {
      const ssize_t count = ::recv(connection_.number(), part, sizeof part, 0);
      if (count <= 0) return all;
      all.append(part, static_cast<std::size_t>(count));
    }
    return "silence";
  }

 private:
  UniqueFd connection_;
  bool connected_ = false;
};

}  // namespace mgpu::test
