// The names of a server certificate: DNS names in lower case, and IP addresses in the form that
// inet_ntop writes. Thread-safe.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu::extender {

using ServerNames = std::set<std::string>;

// "mgpu-extender.kube-system.svc, 10.96.0.20". Errors: none, more than kServerNamesMax, one that is
// neither a DNS name nor an IP address.
Result<ServerNames> parse_server_names(std::string_view text);

// An IP address in its usual form. Empty: `text` is none.
std::string canonical_ip(std::string_view text);
// The address of 4 or 16 bytes. Empty: another number of bytes.
std::string ip_of_bytes(std::string_view bytes);
// Labels of letters, digits and "-", at most kServerNameBytesMax bytes.
bool is_dns_name(std::string_view text);

}  // namespace mgpu::extender
