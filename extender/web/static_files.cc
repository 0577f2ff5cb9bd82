#include "extender/web/static_files.h"

#include <utility>

#include "common/base/digest.h"

namespace mgpu::extender {
namespace {

constexpr std::size_t kTagDigits = 32;

constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'; trusted-types 'none'";

}  // namespace

std::string_view content_type_of(std::string_view name) {
  const std::string_view extension = name.substr(name.rfind('.') + 1);
  if (extension == "html") return "text/html; charset=utf-8";
  if (extension == "css") return "text/css; charset=utf-8";
  if (extension == "js") return "text/javascript; charset=utf-8";
  if (extension == "svg") return "image/svg+xml";
  return "application/octet-stream";
}

http::Response with_web_headers(http::Response response) {
  response.headers.insert(response.headers.end(),
                          {{"Content-Security-Policy", std::string(kContentSecurityPolicy)},
                           {"X-Content-Type-Options", "nosniff"},
                           {"Referrer-Policy", "no-referrer"},
                           {"Cross-Origin-Opener-Policy", "same-origin"},
                           {"Cross-Origin-Resource-Policy", "same-origin"}});
  return response;
}

http::Response file_response(const StaticFile& file, const http::Request& request) {
  const std::string tag = '"' + sha256_hex(file.text).substr(0, kTagDigits) + '"';
  http::Response response{.content_type = std::string(content_type_of(file.name)),
                          .body = std::string(file.text),
                          .headers = {{"ETag", tag}, {"Cache-Control", "no-cache"}}};
  if (request.if_none_match == tag) response.status = 304;
  return with_web_headers(std::move(response));
}

}  // namespace mgpu::extender
