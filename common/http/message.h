// HTTP requests and responses as values.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mgpu::http {

struct Request {
  std::string method;   // "GET", "POST"
  std::string path;     // without the query
  std::string query{};  // without "?", percent-encoded
  std::string body{};
  std::string authorization{};  // the header of that name; it may hold a token and is never logged
  std::string if_none_match{};  // the header of that name
};

// Gives one part of a body, from any thread. Only the first call has an effect. An empty part ends
// the body, and so does the end of all copies without a call.
using GivePart = std::function<void(std::string part)>;
// Makes a body in parts: called for each part, on a server thread, when the client has been sent
// the one before. So a client that reads slowly costs the memory of one part. Must not block. It is
// destroyed when the body has ended or the client has gone, and not called after that.
using NextPart = std::function<void(GivePart give)>;

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  // Besides Content-Length and Content-Type.
  std::vector<std::pair<std::string, std::string>> headers{};
  NextPart next_part{};  // set: the body is what it gives, and `body` is not sent
  // The connection ends when this and other responses that are pending have been sent, so that the
  // client sends its next request on another one, which may lead to another server.
  bool last = false;
};

// Sends the response to one request, from any thread. Only the first call has an effect, and none
// after the connection has been closed. The response is 500 if all copies are destroyed without a
// call.
using Respond = std::function<void(Response)>;
// Called on a server thread. Must not block.
using Handler = std::function<void(Request, Respond)>;

// The body is {"error": message}.
Response error_response(int status, const std::string& message);

// The decoded value of the first `name` in a query, or "".
std::string query_value(const std::string& query, const std::string& name);

}  // namespace mgpu::http
