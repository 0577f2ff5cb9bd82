// The interface to an API server: one request and its answer, or one watch and its lines. It is
// implemented with libcurl (curl/curl_transport.h) and by the in-memory API server
// (bench/apiserver).
//
// Requests are values; request.h builds them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/executor.h"
#include "common/kube/limits.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kube {

// The media type of Kubernetes' protobuf encoding.
inline constexpr const char* kProtobufType = "application/vnd.kubernetes.protobuf";

// What a server has chosen for a body or the events of a watch, which its header Content-Type says.
enum class Encoding { kJson, kProtobuf };

enum class Method { kGet, kPost, kPut, kPatch, kDelete };

struct Request {
  Method method = Method::kGet;
  std::string target;  // path and query, percent-encoded: "/api/v1/pods?limit=500"
  std::string body;
  std::string content_type;  // of `body`; empty if there is no body
  // The answer may be in Kubernetes' protobuf encoding, or in JSON, as the in-memory server's is.
  bool protobuf = false;
  Duration timeout{0};  // of the whole exchange; 0: kApiRequestTimeout; watches have none
  // The most of the answer's body; at most kApiResponseBytesMax.
  std::size_t response_bytes_max = kApiResponseBytesMax;
};

// Why there is no answer. `sent` is true if the server may have acted on the request.
struct TransportFailure {
  std::string message;  // one sentence: "connection refused", "certificate has expired", ...
  bool sent = false;
  bool too_large = false;  // the answer has more than Request::response_bytes_max
};

struct Response {
  int status = 0;  // HTTP status; 0 when `failure` is set
  std::string body;
  std::optional<Duration> retry_after;  // from the header Retry-After, in whole seconds
  std::optional<TransportFailure> failure;
  std::optional<std::chrono::sys_seconds> date = {};  // the header Date: the server's clock
  Encoding encoding = Encoding::kJson;                // of the body

  bool ok() const { return status >= 200 && status < 300; }
};

// The Status in the body of an answer that is not a success, as read_status(). It may have either
// encoding. REQUIRES: no `failure`.
Status status_of(const Response& response);
// An answer that is not a success, as the end of an error sentence: "HTTP 409 Conflict: the
// server's own message", or the transport's message if there was no answer.
std::string answer_text(const Response& response);
// The same of a Status that a watch ends with.
std::string text_of(const Status& status);

// An open watch. The destructor closes it; no handler is called after that. It may outlive its
// transport, after whose end no handler is called either.
class Stream {
 public:
  virtual ~Stream() = default;
};

struct StreamEvents {
  // Once, when the server has answered 200: the encoding of the events.
  std::function<void(Encoding)> on_open;
  // Once for each event: a line of JSON that is not empty, without its newline, or a message of
  // protobuf. A line over kWatchLineBytesMax is cut to kWatchLineBytesKept, and a message to its
  // length.
  std::function<void(std::string_view)> on_line;
  // Once, at the end: with a status other than 200 and its body, a failure, or 200 after a regular
  // end.
  std::function<void(Response)> on_end;
};

// Handlers run on the transport's executor, one at a time, and never inside send() or stream().
// Both may be called from any thread; streams are destroyed on the executor.
class Transport {
 public:
  virtual ~Transport() = default;

  // `done` is called exactly once, unless the transport is destroyed before.
  virtual void send(Request request, std::function<void(Response)> done) = 0;
  virtual std::unique_ptr<Stream> stream(Request request, StreamEvents events) = 0;
  virtual Executor& executor() = 0;
};

}  // namespace mgpu::kube
