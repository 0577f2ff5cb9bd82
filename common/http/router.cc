#include "common/http/router.h"

#include <utility>

#include "common/base/check.h"

namespace mgpu::http {

namespace {

using Methods = std::map<std::string, Handler>;

// HEAD is answered by GET; the session leaves the body out.
const Handler* find(const Methods& methods, const std::string& method) {
  const auto found = methods.find(method);
  if (found != methods.end()) return &found->second;
  return method == "HEAD" ? find(methods, "GET") : nullptr;
}

std::string allowed(const Methods& methods) {
  std::string out;
  for (const auto& [method, handler] : methods) {
    out += (out.empty() ? "" : ", ") + method;
    if (method == "GET") out += ", HEAD";
  }
  return out;
}

// Paths come from outside and go into an answer.
std::string cut(const std::string& text) {
  return text.size() <= 100 ? text : text.substr(0, 100) + "...";
}

}  // namespace

void Router::add(const std::string& method, const std::string& path, Handler handler) {
  const bool added = handlers_[path].emplace(method, std::move(handler)).second;
  MGPU_CHECK(added, "one handler for a method and path");
}

void Router::route(Request request, Respond respond) const {
  const auto methods = handlers_.find(request.path);
  if (methods == handlers_.end()) {
    return respond(error_response(404, "there is nothing at " + cut(request.path)));
  }
  const Handler* handler = find(methods->second, request.method);
  if (handler) return (*handler)(std::move(request), std::move(respond));
  const std::string allow = allowed(methods->second);
  Response refusal = error_response(
      405, "method " + cut(request.method) + " is not for " + request.path + ", only " + allow);
  refusal.headers = {{"Allow", allow}};
  respond(std::move(refusal));
}

}  // namespace mgpu::http
