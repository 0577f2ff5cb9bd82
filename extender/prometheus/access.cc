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
  kube::Config config;
  config.server = url;
  config.ca.file = access.ca_file;
  config.token_file = access.token_file;
  return config;
}

}  // namespace mgpu::promql
