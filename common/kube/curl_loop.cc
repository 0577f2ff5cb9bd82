#include "common/kube/curl_loop.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <utility>

#include "common/base/check.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

CURLM* new_multi() {
  // Once, and before any other use of libcurl.
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  MGPU_CHECK(initialized == CURLE_OK, "libcurl cannot be initialized");
  CURLM* multi = curl_multi_init();
  MGPU_CHECK(multi != nullptr, "out of memory");
  return multi;
}

int directions(int what) {
  switch (what) {
    case CURL_POLL_IN:
      return CURL_CSELECT_IN;
    case CURL_POLL_OUT:
      return CURL_CSELECT_OUT;
    case CURL_POLL_INOUT:
      return CURL_CSELECT_IN | CURL_CSELECT_OUT;
    default:
      return 0;
  }
}

}  // namespace

CurlLoop::CurlLoop(AsioExecutor& executor, std::function<void()> on_step)
    : executor_(executor), on_step_(std::move(on_step)), multi_(new_multi()) {
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &CurlLoop::on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &CurlLoop::on_timer);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  // Connections kept open while idle.
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(kApiConnectionsMax));
}

CurlLoop::~CurlLoop() {
  curl_multi_cleanup(multi_);
  executor_.cancel(timer_);
}

void CurlLoop::add(CURL* transfer) {
  curl_easy_setopt(transfer, CURLOPT_OPENSOCKETFUNCTION, &CurlLoop::on_open_socket);
  curl_easy_setopt(transfer, CURLOPT_OPENSOCKETDATA, this);
  const CURLMcode code = curl_multi_add_handle(multi_, transfer);
  MGPU_CHECK(code == CURLM_OK, "a transfer is added once, and not from inside libcurl");
}

void CurlLoop::remove(CURL* transfer) {
  const CURLMcode code = curl_multi_remove_handle(multi_, transfer);
  MGPU_CHECK(code == CURLM_OK, "a transfer is not removed from inside libcurl");
}

std::optional<CurlLoop::Done> CurlLoop::next_done() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) return Done{message->easy_handle, message->data.result};
  }
  return std::nullopt;
}

int CurlLoop::on_socket(CURL*, curl_socket_t number, int what, void* self, void*) {
  static_cast<CurlLoop*>(self)->watch(number, what);
  return 0;
}

curl_socket_t CurlLoop::on_open_socket(void* self, curlsocktype, curl_sockaddr* address) {
  const int type = address->socktype | SOCK_CLOEXEC;
  const curl_socket_t number = ::socket(address->family, type, address->protocol);
  if (number >= 0) static_cast<CurlLoop*>(self)->replace(number);
  return number < 0 ? CURL_SOCKET_BAD : number;
}

int CurlLoop::on_timer(CURLM*, long milliseconds, void* self) {
  static_cast<CurlLoop*>(self)->set_timer(milliseconds);
  return 0;
}

void CurlLoop::watch(curl_socket_t number, int what) {
  if (what == CURL_POLL_REMOVE) {
    sockets_.erase(number);
  } else {
    want(number, directions(what));
  }
}

// libcurl has a new socket under a number that it has closed without a word. It believes that it is
// being waited for as the old one was, and says nothing while it wants the same.
void CurlLoop::replace(curl_socket_t number) {
  const auto old = sockets_.find(number);
  if (old == sockets_.end()) return;
  const int wanted = old->second->wanted;
  sockets_.erase(old);
  want(number, wanted);
}

void CurlLoop::want(curl_socket_t number, int directions) {
  auto& socket = sockets_[number];
  if (!socket) {
    const int duplicate = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
    // Out of file descriptors: the transfer ends by its timeout.
    if (duplicate < 0) {
      sockets_.erase(number);
      return;
    }
    socket = std::make_shared<Socket>(executor_.context(), duplicate);
  }
  socket->wanted = directions;
  for (const int direction : {CURL_CSELECT_IN, CURL_CSELECT_OUT}) wait(number, socket, direction);
}

void CurlLoop::wait(curl_socket_t number, const std::shared_ptr<Socket>& socket, int direction) {
  if ((socket->wanted & direction) == 0 || (socket->waiting & direction) != 0) return;
  socket->waiting |= direction;
  const auto kind = direction == CURL_CSELECT_IN ? boost::asio::posix::descriptor_base::wait_read
                                                 : boost::asio::posix::descriptor_base::wait_write;
  const auto ready = [weak = weak_from_this(), held = std::weak_ptr<Socket>(socket), number,
                      direction](const boost::system::error_code& failure) {
    const auto self = weak.lock();
    const auto same = held.lock();
    if (!self || !same) return;
    same->waiting &= ~direction;
    if ((same->wanted & direction) == 0) return;
    self->act(number, failure ? CURL_CSELECT_ERR : direction);
    const auto now = self->sockets_.find(number);
    if (now != self->sockets_.end() && now->second == same) self->wait(number, same, direction);
  };
  socket->descriptor.async_wait(kind, ready);
}

void CurlLoop::set_timer(long milliseconds) {
  executor_.cancel(timer_);
  if (milliseconds < 0) return;
  timer_ = executor_.after(Duration(milliseconds), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->act(CURL_SOCKET_TIMEOUT, 0);
  });
}

void CurlLoop::act(curl_socket_t number, int events) {
  int running = 0;
  curl_multi_socket_action(multi_, number, events, &running);
  on_step_();
}

}  // namespace mgpu::kube
