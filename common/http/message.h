// Requests and answers as values. This folder knows nothing of Kubernetes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mgpu::http {

struct Request {
  std::string method;   // "GET", "POST"
  std::string path;     // without the query
  std::string query{};  // without "?"; percent-encoded as it came
  std::string body{};
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};  // beside length and type
};

// Answers one request. May be called from any thread, at once or later, once; what comes later or
// after the connection has ended is dropped. When all copies are gone unused, the answer is 500.
using Respond = std::function<void(Response)>;
// Called on a server thread; must not block.
using Handler = std::function<void(Request, Respond)>;

// {"error": message} with that status.
Response error_response(int status, const std::string& message);

// The decoded value of `name` in a query, or empty.
std::string query_value(const std::string& query, const std::string& name);

}  // namespace mgpu::http
