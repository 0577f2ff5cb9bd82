#include "extender/certificates/names.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>

#include "common/base/text.h"
#include "extender/certificates/limits.h"

namespace mgpu::extender {
namespace {

constexpr std::size_t kDnsLabelMax = 63;

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

Result<std::string> read_server_name(std::string_view text) {
  std::string ip = canonical_ip(text);
  if (!ip.empty()) return ip;
  // 10.96.0.300 is a mistake and not a DNS name.
  const bool numeric = text.find_first_not_of("0123456789.") == std::string_view::npos;
  if (!numeric && is_dns_name(text)) return lower_case(text);
  return error(in_quotes(text) + " is neither a DNS name nor an IP address");
}

}  // namespace

Result<ServerNames> parse_server_names(std::string_view text) {
  ServerNames names;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    auto name = read_server_name(without_blanks(text.substr(0, comma)));
    if (!name) return name.error();
    names.insert(std::move(*name));
    if (names.size() > kServerNamesMax) {
      return error(fmt::format("more than {} names", kServerNamesMax));
    }
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
  }
  return names;
}

// An IPv6 address can be written in several ways, and names are compared as texts.
std::string canonical_ip(std::string_view text) {
  std::array<char, 16> bytes{};
  const std::string terminated(text);
  if (inet_pton(AF_INET, terminated.c_str(), bytes.data()) == 1) {
    return ip_of_bytes({bytes.data(), 4});
  }
  if (inet_pton(AF_INET6, terminated.c_str(), bytes.data()) == 1) {
    return ip_of_bytes({bytes.data(), 16});
  }
  return {};
}

std::string ip_of_bytes(std::string_view bytes) {
  if (bytes.size() != 4 && bytes.size() != 16) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(), text.data(), text.size());
  return text.data();
}

bool is_dns_name(std::string_view text) {
  if (text.size() > kServerNameBytesMax) return false;
  for (std::size_t dot = 0; dot != std::string_view::npos;) {
    dot = text.find('.');
    const std::string label = lower_case(text.substr(0, dot));
    if (label.size() > kDnsLabelMax || !is_dns_label(label)) return false;
    if (dot != std::string_view::npos) text.remove_prefix(dot + 1);
  }
  return true;
}

}  // namespace mgpu::extender
