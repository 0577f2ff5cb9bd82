// Feeds queries, endpoints and Host headers to their readers.
//
// Properties: a percent-encoded value is decoded to itself; an endpoint that is written again is
// read as equal; a host is local only where it is "localhost", a loopback address or a permitted
// name.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "common/base/text.h"
#include "common/http/address.h"
#include "common/http/message.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

std::string percent_encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) encoded += fmt::format("%{:02x}", static_cast<unsigned char>(c));
  return encoded;
}

void expect_endpoint(std::string_view input) {
  const auto endpoint = http::parse_endpoint(input);
  if (!endpoint) return expect_sentence(endpoint.error().message);
  expect(http::is_ip_address(endpoint->address), "an endpoint has an IP address");
  const bool v6 = endpoint->address.find(':') != std::string::npos;
  const auto again = http::parse_endpoint(
      fmt::format(fmt::runtime(v6 ? "[{}]:{}" : "{}:{}"), endpoint->address, endpoint->port));
  expect(again && again->address == endpoint->address && again->port == endpoint->port,
         "an endpoint is read as it is written");
}

// "[::1]:80" and "[::1]" are ::1.
std::string without_port(const std::string& host) {
  if (host.starts_with("[")) return host.substr(1, host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

void expect_host(std::string_view input) {
  if (!http::is_local_host(input, {"mgpu.example"})) return;
  const std::string host = lower_case(input);
  const std::string name = without_port(host);
  const bool is_loopback = name.starts_with("127.") || name.find(':') != std::string::npos;
  const bool known =
      name == "localhost" || name == "mgpu.example" || (is_loopback && http::is_ip_address(name));
  expect(known, "a local host is one that is known: " + host);
}

}  // namespace

MGPU_FUZZER(http_text) {
  const std::string query(input);
  http::query_value(query, "pod");
  const std::string more = "other=1&n%61me=" + percent_encoded(query) + "&" + query;
  expect(http::query_value(more, "name") == query, "an encoded value is decoded to itself");
  expect_endpoint(input);
  expect_host(input);
}

}  // namespace mgpu::fuzz
