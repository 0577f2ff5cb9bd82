// Text in the query of a URL. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mgpu {

// `text` as the value of a parameter, percent-encoded.
std::string query_text(std::string_view text);

}  // namespace mgpu
