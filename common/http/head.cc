#include "common/http/head.h"

#include <fmt/format.h>

#include <boost/beast/http/status.hpp>

namespace mgpu::http {

std::string head_of(const Response& response, std::string_view length, bool keep_alive) {
  const auto status = boost::beast::http::int_to_status(static_cast<unsigned>(response.status));
  const std::string_view reason(boost::beast::http::obsolete_reason(status));
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}", response.status,
                                 reason, response.content_type, length);
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  return head + (keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

}  // namespace mgpu::http
