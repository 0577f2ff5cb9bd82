#include "common/http/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <string>

namespace mgpu::http {

namespace {

constexpr int kNotModified = 304;

void set_first(std::string& field, std::string_view value) {
  if (field.empty()) field = value;
}

}  // namespace

void RequestFields::set_target(std::string_view target) {
  const std::size_t path_end = std::min(target.find('?'), target.size());
  request.path = target.substr(0, path_end);
  request.query = target.substr(std::min(path_end + 1, target.size()));
}

void RequestFields::add(std::string_view name, std::string_view value) {
  if (name == "host") {
    // A request with several hosts is refused, so they are counted (request_source.cc).
    if (++source.hosts == 1) source.host = value;
  } else if (name == "origin") {
    if (!source.origin) source.origin = value;
  } else if (name == "authorization") {
    set_first(request.authorization, value);
  } else if (name == "if-none-match") {
    set_first(request.if_none_match, value);
  } else if (name == "sec-fetch-site") {
    set_first(source.fetch_site, value);
  } else if (name == "sec-fetch-mode") {
    set_first(source.fetch_mode, value);
  } else if (name == "sec-fetch-dest") {
    set_first(source.fetch_destination, value);
  } else if (name == "expect") {
    expects_continue = expects_continue || boost::beast::iequals(value, "100-continue");
  }
}

bool sends_body(std::string_view method, int status) {
  // These answers end with the header; a client would take a body for its next answer.
  return method != "HEAD" && status != kNotModified;
}

Response header_too_large(std::size_t bytes_max) {
  return error_response(431, fmt::format("the header is over {} bytes", bytes_max));
}

Response body_too_large(std::size_t bytes_max) {
  return error_response(413, fmt::format("the body is over {} bytes", bytes_max));
}

Response request_dropped() {
  return error_response(500, "the request was dropped");
}

}  // namespace mgpu::http
