#include "common/http/router.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"

namespace mgpu::http {

namespace {

std::string allowed(const std::map<std::string, Handler>& methods) {
  std::string out;
  for (const auto& [method, handler] : methods) {
    out += (out.empty() ? "" : ", ") + method;
    if (method == "GET") out += ", HEAD";
  }
  return out;
}

}  // namespace

void Router::add(const std::string& method, const std::string& path, Handler handler) {
  const bool added = handlers_[path].emplace(method, std::move(handler)).second;
  MGPU_CHECK(added, "a method and path has two handlers");
}

void Router::route(Request request, Respond respond) const {
  const auto methods = handlers_.find(request.path);
  if (methods == handlers_.end()) {
    return respond(error_response(404, "path " + in_quotes(request.path) + " not found"));
  }
  // The answer to HEAD has the header of that to GET; the session leaves out the body.
  const auto handler = methods->second.find(request.method == "HEAD" ? "GET" : request.method);
  if (handler != methods->second.end()) {
    return handler->second(std::move(request), std::move(respond));
  }
  const std::string allow = allowed(methods->second);
  Response refusal = error_response(
      405, "method " + in_quotes(request.method) + " is not allowed, must be " + allow);
  // RFC 9110 requires it in each answer 405.
  refusal.headers = {{"Allow", allow}};
  respond(std::move(refusal));
}

}  // namespace mgpu::http
