#include "common/http/address.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <optional>

#include "common/base/text.h"

namespace mgpu::http {

namespace {

struct HostAndPort {
  std::string_view host;  // an IPv6 address without its brackets
  std::string_view port;  // empty: there is none
  bool bracketed = false;
};

// Nothing if the text has an unmatched bracket, or an empty port.
std::optional<HostAndPort> split_port(std::string_view text) {
  HostAndPort out{.host = text, .port = {}, .bracketed = text.starts_with('[')};
  std::size_t end = text.find(':');
  if (out.bracketed) {
    const std::size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    out.host = text.substr(1, bracket - 1);
    end = bracket + 1;
    if (end < text.size() && text[end] != ':') return std::nullopt;
  } else {
    out.host = text.substr(0, end);
  }
  if (end >= text.size()) return out;
  out.port = text.substr(end + 1);
  if (!parse_number<std::uint16_t>(out.port)) return std::nullopt;
  return out;
}

}  // namespace

bool is_ip_address(const std::string& text) {
  boost::system::error_code failed;
  boost::asio::ip::make_address(text, failed);
  return !failed;
}

bool is_loopback(const std::string& address) {
  boost::system::error_code failed;
  const auto read = boost::asio::ip::make_address(address, failed);
  return !failed && read.is_loopback();
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto parts = split_port(text);
  const auto port = parts ? parse_number<std::uint16_t>(parts->port) : std::nullopt;
  const std::string address(parts ? parts->host : "");
  const bool has_brackets = parts && parts->bracketed;
  const bool v6 = address.find(':') != std::string::npos;
  // Without brackets the last group of an IPv6 address could be taken for the port.
  if (port && is_ip_address(address) && v6 == has_brackets) return Endpoint{address, *port};
  return error(
      fmt::format("{} is not an IP address and a port such as \"127.0.0.1:9802\" or \"[::1]:9802\"",
                  in_quotes(text)));
}

bool is_local_host(std::string_view host, const std::vector<std::string>& names) {
  const auto parts = split_port(host);
  if (!parts) return false;
  const std::string name = lower_case(parts->host);
  const bool v6 = name.find(':') != std::string::npos;
  if (v6 != parts->bracketed) return false;
  return name == "localhost" || is_loopback(name) ||
         std::ranges::any_of(names,
                             [&](const std::string& each) { return lower_case(each) == name; });
}

}  // namespace mgpu::http
