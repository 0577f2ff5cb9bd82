// One request on its way through libcurl: its options, and what has come back so far.
#pragma once

#include <curl/curl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "common/kube/config.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// Where requests go, made once from the configuration.
struct Endpoint {
  std::string base_url;     // of `server`, or of `tls_server_name` in its place
  std::string connect_to;   // libcurl's "::host:port", empty: where base_url says
  std::string host_header;  // "Host: ..." where base_url has another name, or empty
};

// Errors: no URL that libcurl can read, or one with more than scheme, host, port and path.
Result<Endpoint> endpoint_of(const Config& config);

class CurlTransfer {
 public:
  using Done = std::function<void(Response)>;

  CurlTransfer(Request request, Done done);
  // A watch; once `closed` is true nothing more is called.
  CurlTransfer(Request request, StreamHandlers handlers, std::shared_ptr<std::atomic<bool>> closed);
  ~CurlTransfer();
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  // Makes a new attempt of it, to be given to libcurl. `config` and `endpoint` outlive it.
  void prepare(const Config& config, const Endpoint& endpoint, const std::string& token);
  // What was waited for before the first attempt counts too.
  void shorten_timeout(Duration left) { request_.timeout = left; }
  // Nothing is called any more.
  void abandon() {
    if (closed_) closed_->store(true);
  }
  CURL* easy() const { return easy_; }
  bool is_stream() const { return closed_ != nullptr; }
  bool closed() const { return closed_ && closed_->load(); }
  const Request& request() const { return request_; }
  const std::string& token() const { return token_; }

  // What the attempt came to.
  Response response(CURLcode code);
  // Calls the handlers of a watch with the lines that are complete; the last one too where `ended`.
  // False: nothing may be called any more, and the transfer may be gone.
  bool deliver_lines(bool ended);
  // Calls `done`, or the watch's on_end.
  void finish(Response response);

 private:
  static std::size_t on_header(char* text, std::size_t, std::size_t size, void* self);
  static std::size_t on_body(char* text, std::size_t, std::size_t size, void* self);

  void set_method();
  void set_headers(const Endpoint& endpoint);
  void set_security(const Config& config);
  void set_limits();
  void add_header(const std::string& header);
  long status() const;
  bool take(const char* text, std::size_t size);
  void take_lines(std::string_view text);
  TransportFailure failure(CURLcode code) const;

  Request request_;
  Done done_;
  std::shared_ptr<const StreamHandlers> handlers_;  // of a watch
  std::shared_ptr<std::atomic<bool>> closed_;

  CURL* easy_ = nullptr;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  char curl_error_[CURL_ERROR_SIZE] = "";
  std::string token_;
  std::string body_;         // of a watch with status 200: what is not delivered yet
  std::size_t scanned_ = 0;  // so much of body_ has no line end
  bool cutting_ = false;     // what comes belongs to a line that is too long
  std::string too_large_;    // why the answer was not read on
  bool opened_ = false;      // a watch that the server answered with 200
  bool told_open_ = false;
};

}  // namespace mgpu::kube
