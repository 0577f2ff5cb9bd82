// The head of an HTTP/1.1 response. Pure.
#pragma once

#include <string>
#include <string_view>

#include "common/http/message.h"

namespace mgpu::http {

// `length` is the header that determines where the body ends, with its line end, or empty.
std::string head_of(const Response& response, std::string_view length, bool keep_alive);

}  // namespace mgpu::http
