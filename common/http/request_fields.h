// What a server reads of the head of a request, in HTTP/1.1 and in HTTP/2. Pure.
#pragma once

#include <string_view>

#include "common/http/message.h"
#include "common/http/request_source.h"

namespace mgpu::http {

struct RequestFields {
  Request request;
  RequestSource source;
  bool expects_continue = false;  // case is ignored (RFC 9110, 10.1.1)

  // Splits the target at its first "?".
  void set_target(std::string_view target);
  // `name` is in lower case. Of a repeated field the first one counts. Host is counted, and one
  // Expect of "100-continue" suffices.
  void add(std::string_view name, std::string_view value);
};

// False for responses to HEAD, and with 304 (RFC 9110, 6.4.1). Their Content-Length is that of the
// body which the client does not get.
bool sends_body(std::string_view method, int status);

Response header_too_large(std::size_t bytes_max);  // 431
Response body_too_large(std::size_t bytes_max);    // 413
Response request_dropped();                        // 500

}  // namespace mgpu::http
