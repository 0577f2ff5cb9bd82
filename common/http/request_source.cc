#include "common/http/request_source.h"

#include <string_view>

#include "common/base/text.h"
#include "common/http/address.h"

namespace mgpu::http {

namespace {

bool is_of_other_site(const RequestSource& source, const std::vector<std::string>& host_names) {
  const std::string_view site = source.fetch_site;
  const bool is_visit = source.fetch_mode == "navigate" && source.fetch_destination == "document";
  if ((site == "cross-site" || site == "same-site") && !is_visit) return true;
  if (!source.origin) return false;
  const std::string_view origin = *source.origin;
  const std::size_t scheme_end = origin.find("://");
  return scheme_end == std::string_view::npos ||
         !is_local_host(origin.substr(scheme_end + 3), host_names);
}

bool is_for(const RequestSource& source, const std::vector<std::string>& host_names) {
  if (source.hosts == 0 && !source.needs_host) return true;
  return source.hosts == 1 && is_local_host(source.host, host_names);
}

}  // namespace

std::optional<SourceRefusal> refusal_of(const RequestSource& source,
                                        const std::vector<std::string>& host_names) {
  if (is_of_other_site(source, host_names)) {
    return SourceRefusal{
        "origin", error_response(403, "requests of web pages of other hosts are not served")};
  }
  if (is_for(source, host_names)) return std::nullopt;
  return SourceRefusal{
      "host",
      error_response(421, "Host must be localhost, a loopback address or an allowed name, is " +
                              in_quotes(source.host))};
}

}  // namespace mgpu::http
