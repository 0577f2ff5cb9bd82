// Standard base64 (RFC 4648, section 4) as Go's JSON decoder accepts and writes it. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mgpu {

// Line ends are skipped. None: the text is not base64 with the right padding.
std::optional<std::string> decode_base64(std::string_view text);

// Encodes with padding, and without line ends.
std::string encode_base64(std::string_view bytes);

}  // namespace mgpu
