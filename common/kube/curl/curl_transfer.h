// One request in libcurl: its options, and the part of the answer that has arrived.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/kube/config/config.h"
#include "common/kube/config/exec_credential.h"
#include "common/kube/transport.h"
#include "common/kube/watch/event_buffer.h"
#include "common/kube/watch/line_buffer.h"

namespace mgpu::kube {

inline constexpr int kUnauthorized = 401;

// The address of the API server, derived once from the configuration.
struct Endpoint {
  std::string base_url;     // `server`, with `tls_server_name` as its host if that is set
  std::string connect_to;   // libcurl's "::host:port"; empty: that of base_url
  std::string host_header;  // "Host: ..." if base_url has another name; otherwise empty
};

// Errors: `server` is not a URL, or has more than scheme, host, port and path.
Result<Endpoint> endpoint_of(const Config& config);

// The result of a request that the server has not got.
Response never_sent(std::string why);

class CurlTransfer {
 public:
  using Done = std::function<void(Response)>;

  CurlTransfer(Request request, Done done);
  // A watch. Once `closed` is true, no handler is called any more.
  CurlTransfer(Request request, StreamEvents events, std::shared_ptr<std::atomic<bool>> closed);
  ~CurlTransfer();
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  // Creates the libcurl handle of a new attempt. `config` and `endpoint` outlive it. After
  // use_new_connection() it does not use a kept connection. A `credential` is used instead of the
  // token and the client certificate.
  void prepare(const Config& config, const Endpoint& endpoint, const std::string& token,
               std::shared_ptr<const ExecCredential> credential);
  // Shortens the timeout by the time that the request waited before its first attempt.
  void shorten_timeout(Duration left) { request_.timeout = left; }
  // After a 401: true if the attempt had a client certificate from a file, and its connection may
  // be older than the file. Then the next attempt uses a new connection. True at most once.
  bool use_new_connection();
  // Ends all calls of handlers.
  void abandon() {
    if (closed_) closed_->store(true);
  }
  CURL* easy() const { return easy_; }
  bool is_stream() const { return closed_ != nullptr; }
  bool closed() const { return closed_ && closed_->load(); }
  Duration timeout() const;  // of the request
  const std::string& token() const { return token_; }
  const std::shared_ptr<const ExecCredential>& credential() const { return credential_; }
  // Returns whether another attempt, after a 401, may use a new credential. True at most once.
  bool use_new_credential() { return !std::exchange(new_credential_, true); }

  // The result of the attempt.
  Response response(CURLcode code);
  // Calls the handlers of a watch with the complete events; with `ended` also with a last line.
  // False: no handler may be called any more, and the transfer may be destroyed.
  bool deliver_lines(bool ended);
  // Calls `done`, or the watch's on_end.
  void finish(Response response);

 private:
  static std::size_t on_header(char* text, std::size_t, std::size_t size, void* self);
  static std::size_t on_body(char* text, std::size_t, std::size_t size, void* self);

  void set_headers(const Config& config, const Endpoint& endpoint);
  void set_security(const Config& config);
  void set_limits();
  void open();

  Request request_;
  Done done_;
  std::shared_ptr<const StreamEvents> stream_events_;  // of a watch
  std::shared_ptr<std::atomic<bool>> closed_;

  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  char curl_error_[CURL_ERROR_SIZE] = "";
  std::string token_;
  bool has_certificate_ = false;  // of the client
  bool new_connection_ = false;
  std::shared_ptr<const ExecCredential> credential_;  // of the attempt; null: that of the config
  bool new_credential_ = false;
  std::string body_;                   // not of a watch with status 200
  LineBuffer lines_;                   // of a watch with status 200
  std::optional<EventBuffer> events_;  // the same, if it is in protobuf
  std::string too_large_;              // why the answer was not read to its end
  bool opened_ = false;                // the server has answered a watch with 200
  bool open_delivered_ = false;
};

}  // namespace mgpu::kube
