// Standard base64 (RFC 4648, section 4) as Go's JSON reader takes it. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mgpu::kube {

// Line ends are skipped; none where anything else is not as it must be, padding included.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace mgpu::kube
