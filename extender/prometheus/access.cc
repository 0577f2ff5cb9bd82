#include "extender/prometheus/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/base/text.h"
#include "common/http/address.h"
#include "extender/prometheus/limits.h"

namespace mgpu::promql {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

bool is_plain(std::string_view url) {
  return std::all_of(url.begin(), url.end(), [](char c) {
    return c > ' ' && c < '\x7f' && c != '?' && c != '#' && c != '"' && c != '<' && c != '>' &&
           c != '\\';
  });
}

// What Mimir accepts, except for a "|" between several tenants, whose uses would be mixed.
bool is_tenant(std::string_view name) {
  return name.size() <= kTenantBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("!-_.*'()").find(c) != std::string_view::npos;
         });
}

// The host and port of a URL.
std::string_view authority_of(std::string_view url) {
  url.remove_prefix(url.starts_with(kHttps) ? kHttps.size() : kHttp.size());
  return url.substr(0, url.find('/'));
}

}  // namespace

Result<kube::Config> config_of(const Access& access) {
  std::string url = access.url;
  while (url.ends_with('/')) url.pop_back();
  const bool plain = url.starts_with(kHttp);
  // What is before an @ may be a password, and is not shown.
  if (url.find('@') != std::string::npos) {
    return error(
        "--prometheus-url must not contain credentials; --prometheus-token-file names a file with "
        "a bearer token");
  }
  const bool valid = url.size() <= kUrlBytesMax && (plain || url.starts_with(kHttps)) &&
                     is_plain(url) && !authority_of(url).empty();
  if (!valid) {
    return error(
        fmt::format("--prometheus-url must be http:// or https:// with a host, and may have a port "
                    "and a path, is {}",
                    in_quotes(access.url)));
  }
  if (plain && !access.token_file.empty() && !http::is_local_host(authority_of(url), {})) {
    return error(
        fmt::format("--prometheus-token-file needs an https:// address in --prometheus-url, is {}; "
                    "the token would be readable on the network",
                    in_quotes(access.url)));
  }
  if (plain && !access.ca_file.empty()) {
    return error(fmt::format("--prometheus-ca needs an https:// address in --prometheus-url, is {}",
                             in_quotes(access.url)));
  }
  if (!is_tenant(access.tenant)) {
    return error(
        fmt::format("--prometheus-tenant must have at most {} letters, digits and "
                    "!-_.*'(), is {}",
                    kTenantBytesMax, in_quotes(access.tenant)));
  }
  kube::Config config;
  if (!access.tenant.empty()) {
    config.headers = {"X-Scope-OrgID: " + access.tenant, "THANOS-TENANT: " + access.tenant};
  }
  config.server = url;
  config.ca.file = access.ca_file;
  config.token_file = access.token_file;
  return config;
}

}  // namespace mgpu::promql
