// Decides whether a server on a loopback address answers a request, by the headers that name its
// destination and its origin. Pure.
//
// Web pages send requests to local servers without asking for permission first. Browsers send
// Origin with each POST, and Sec-Fetch-Site with each request, also of images and frames.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/http/message.h"

namespace mgpu::http {

struct RequestSource {
  // In HTTP/1 Host headers, in HTTP/2 different values of ":authority" and Host.
  std::size_t hosts = 0;
  bool needs_host = true;  // false in HTTP/1.0, which browsers do not use
  std::string host{};      // of the first one
  std::optional<std::string> origin{};
  std::string fetch_site{};  // Sec-Fetch-Site, and so on
  std::string fetch_mode{};
  std::string fetch_destination{};
};

struct SourceRefusal {
  const char* why;  // as of ServerEvents::on_refused
  Response response;
};

// Hosts must be local, or one of `host_names`. A link on a page of another site that a person
// follows is served.
std::optional<SourceRefusal> refusal_of(const RequestSource& source,
                                        const std::vector<std::string>& host_names);

}  // namespace mgpu::http
