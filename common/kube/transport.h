// The seam to an API server: one request and its answer, or one watch and its lines. libcurl
// (curl_transport.h) is on one side, the in-memory API server (memory_api_server.h) on the other.
//
// Requests are values; making them (request.h) needs no transport.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/executor.h"
#include "common/kube/limits.h"

namespace mgpu::kube {

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

struct Request {
  Method method = Method::kGet;
  std::string target;  // path and query, percent-encoded: "/api/v1/pods?limit=500"
  std::string body;
  std::string content_type;  // of `body`; empty where there is none
  Duration timeout{0};       // of the whole exchange; 0 = kApiRequestTimeout; watches: none
};

// Why there is no answer at all. `sent` tells whether the server may have acted on the request.
struct TransportFailure {
  std::string message;  // one sentence: "connection refused", "certificate has expired", ...
  bool sent = false;
  bool too_large = false;  // the answer has more than kApiResponseBytesMax
};

struct Response {
  int status = 0;  // HTTP status; 0 when `failure` is set
  std::string body;
  std::optional<Duration> retry_after;  // from the header Retry-After, in whole seconds
  std::optional<TransportFailure> failure;

  bool ok() const { return status >= 200 && status < 300; }
};

// A watch that is open. Destroying it closes it; no handler is called after the destructor. It may
// outlive its transport: then nothing is called any more.
class Stream {
 public:
  virtual ~Stream() = default;
};

struct StreamHandlers {
  // Once, when the server has answered 200 and will send lines.
  std::function<void()> on_open;
  // Each line, without its newline, never empty. Of a line over kWatchLineBytesMax the
  // first kWatchLineBytesKept.
  std::function<void(std::string_view)> on_line;
  // Once, at the end: a status other than 200 with its body, a failure, or 200 after a regular end.
  std::function<void(Response)> on_end;
};

// Handlers run on the transport's executor, one at a time, and never inside the call that started
// them. Both functions may be called from any thread; streams are destroyed on the executor.
class Transport {
 public:
  virtual ~Transport() = default;

  // `done` is called exactly once, unless the transport is destroyed before.
  virtual void send(Request request, std::function<void(Response)> done) = 0;
  virtual std::unique_ptr<Stream> stream(Request request, StreamHandlers handlers) = 0;
  virtual Executor& executor() = 0;
};

}  // namespace mgpu::kube
