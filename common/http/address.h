// IP addresses and Host headers as text. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::http {

bool is_ip_address(const std::string& text);
// True for 127.0.0.0/8 and ::1; false for everything else, also for text that is no address.
bool is_loopback(const std::string& address);

struct Endpoint {
  std::string address;
  std::uint16_t port = 0;
};
// Reads "127.0.0.1:9802" or "[::1]:9802". Errors: anything else, with what was expected.
Result<Endpoint> parse_endpoint(std::string_view text);

// True if a Host header, with or without a port, is "localhost", an address of 127.0.0.0/8, "[::1]"
// or one of `names`; case is ignored. A web page that lets its own name resolve to a loopback
// address (DNS rebinding) sends that name.
bool is_local_host(std::string_view host, const std::vector<std::string>& names);

}  // namespace mgpu::http
