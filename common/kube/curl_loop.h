// libcurl's multi interface on the io_context of an AsioExecutor. All functions on its thread, or
// after executor.stop().
#pragma once

#include <curl/curl.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "common/base/asio_executor.h"

namespace mgpu::kube {

class CurlLoop : public std::enable_shared_from_this<CurlLoop> {
 public:
  struct Done {
    CURL* transfer;
    CURLcode code;
  };

  // `on_step` is called after libcurl has done something, never from inside it: there transfers may
  // be added, removed and found done, and the loop be let go.
  CurlLoop(AsioExecutor& executor, std::function<void()> on_step);
  ~CurlLoop();
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;

  // The transfer must be removed before it is cleaned up. Not from inside libcurl's callbacks.
  void add(CURL* transfer);
  void remove(CURL* transfer);
  std::optional<Done> next_done();

 private:
  // A socket of libcurl, which it opens and closes itself. It closes one that is still connecting
  // before it says so, and its number may mean another file by then: waiting goes on with a
  // duplicate, whose number is ours.
  struct Socket {
    Socket(boost::asio::io_context& context, int duplicate) : descriptor(context, duplicate) {}

    boost::asio::posix::stream_descriptor descriptor;
    int wanted = 0;  // CURL_CSELECT_IN, _OUT
    int waiting = 0;
  };

  static int on_socket(CURL*, curl_socket_t number, int what, void* self, void*);
  static curl_socket_t on_open_socket(void* self, curlsocktype, curl_sockaddr* address);
  static int on_timer(CURLM*, long milliseconds, void* self);

  void watch(curl_socket_t number, int what);
  void replace(curl_socket_t number);
  void want(curl_socket_t number, int directions);
  void wait(curl_socket_t number, const std::shared_ptr<Socket>& socket, int direction);
  void set_timer(long milliseconds);
  void act(curl_socket_t number, int events);

  AsioExecutor& executor_;
  std::function<void()> on_step_;
  CURLM* multi_;
  std::map<curl_socket_t, std::shared_ptr<Socket>> sockets_;
  Executor::TimerId timer_ = 0;
};

}  // namespace mgpu::kube
