#include "common/kube/curl/curl_transport.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <deque>
#include <map>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "common/base/check.h"
#include "common/kube/config/exec_plugin.h"
#include "common/kube/config/token_source.h"
#include "common/kube/curl/curl_transfer.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

// When it is destroyed, sets `closed` and then calls `after`.
class CurlStream final : public Stream {
 public:
  CurlStream(std::shared_ptr<std::atomic<bool>> closed, Task after)
      : closed_(std::move(closed)), after_(std::move(after)) {}
  ~CurlStream() override {
    closed_->store(true);
    after_();
  }

 private:
  std::shared_ptr<std::atomic<bool>> closed_;
  Task after_;
};

CURLM* new_multi() {
  // Once, and before any other use of libcurl.
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  MGPU_CHECK(initialized == CURLE_OK, "libcurl cannot be initialized");
  CURLM* const multi = curl_multi_init();
  MGPU_CHECK(multi != nullptr, "out of memory");
  return multi;
}

}  // namespace

// Everything but create() runs on the executor. Handlers may send, close streams and destroy the
// transport: after each call of one, `closed` is checked before anything else is used.
struct CurlTransport::State : std::enable_shared_from_this<State> {
  using Owned = std::unique_ptr<CurlTransfer>;
  struct Waiting {
    Owned transfer;
    Instant deadline;
  };

  State(Config the_config, Endpoint the_endpoint, TokenSource the_token,
        std::unique_ptr<ExecPlugin> the_exec, AsioExecutor& the_executor, int epoll)
      : config(std::move(the_config)),
        endpoint(std::move(the_endpoint)),
        token(std::move(the_token)),
        exec(std::move(the_exec)),
        executor(the_executor),
        sockets(executor.context(), epoll),
        multi(new_multi(), &curl_multi_cleanup) {
    curl_multi_setopt(multi.get(), CURLMOPT_SOCKETFUNCTION, &State::on_socket);
    curl_multi_setopt(multi.get(), CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi.get(), CURLMOPT_TIMERFUNCTION, &State::on_timer);
    curl_multi_setopt(multi.get(), CURLMOPT_TIMERDATA, this);
    // Connections kept open while idle.
    curl_multi_setopt(multi.get(), CURLMOPT_MAXCONNECTS, static_cast<long>(kApiConnectionsMax));
  }

  // libcurl's callbacks.
  static int on_socket(CURL*, curl_socket_t socket, int what, void* state, void*);
  static curl_socket_t on_open_socket(void* state, curlsocktype, curl_sockaddr* address);
  static int on_timer(CURLM*, long milliseconds, void* state);
  void add_to_epoll(curl_socket_t socket);
  void wait_for_sockets();

  void submit(Owned transfer);
  void wait_for_start(Owned transfer);
  void submit_again(Owned transfer);
  bool has_credential() { return !exec || exec->state() == ExecPlugin::State::kValid; }
  void on_exec_change();
  void fail_waiting(const std::string& why);
  void expire_waiting();
  void start_waiting();
  void start(Owned transfer);
  void after_step();
  void complete(CURL* easy, CURLcode code);
  bool retry_unauthorized(Owned& transfer);
  Owned take(CURL* easy);
  void close();

  const Config config;
  const Endpoint endpoint;
  TokenSource token;
  std::unique_ptr<ExecPlugin> exec;  // null: the user has none
  AsioExecutor& executor;
  // An epoll descriptor with libcurl's sockets, and the events that libcurl waits for on each.
  boost::asio::posix::stream_descriptor sockets;
  std::map<curl_socket_t, std::uint32_t> socket_events{};
  std::unique_ptr<CURLM, CURLMcode (*)(CURLM*)> multi;
  Executor::TimerId timer = 0;
  std::unordered_map<CURL*, Owned> in_flight{};
  std::vector<CurlTransfer*> streams{};  // those of in_flight that are watches
  std::deque<Waiting> waiting{};         // for a free connection, or a credential
  std::vector<Owned> waiting_streams{};  // for a credential
  bool closed = false;
};

int CurlTransport::State::on_socket(CURL*, curl_socket_t socket, int what, void* state, void*) {
  State& self = *static_cast<State*>(state);
  if (what == CURL_POLL_REMOVE) {
    self.socket_events.erase(socket);
    // At the end another thread may have got the number of a socket that libcurl has closed before,
    // and the epoll descriptor is closed anyway.
    if (self.closed) return 0;
    ::epoll_ctl(self.sockets.native_handle(), EPOLL_CTL_DEL, socket, nullptr);
    return 0;
  }
  self.socket_events[socket] =
      ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0U);
  self.add_to_epoll(socket);
  return 0;
}

// libcurl does not report that it closes a socket that is still connecting. Where a new socket gets
// the same number and the same events, on_socket is not called either.
curl_socket_t CurlTransport::State::on_open_socket(void* state, curlsocktype,
                                                   curl_sockaddr* address) {
  const int type = address->socktype | SOCK_CLOEXEC;
  const curl_socket_t socket = ::socket(address->family, type, address->protocol);
  if (socket < 0) return CURL_SOCKET_BAD;
  State& self = *static_cast<State*>(state);
  if (self.socket_events.contains(socket)) self.add_to_epoll(socket);
  return socket;
}

int CurlTransport::State::on_timer(CURLM*, long milliseconds, void* state) {
  State& self = *static_cast<State*>(state);
  self.executor.cancel(self.timer);
  if (milliseconds < 0) return 0;
  self.timer = self.executor.after(Duration(milliseconds), [weak = self.weak_from_this()] {
    const auto kept = weak.lock();
    if (!kept || kept->closed) return;
    int running = 0;
    curl_multi_socket_action(kept->multi.get(), CURL_SOCKET_TIMEOUT, 0, &running);
    kept->after_step();
  });
  return 0;
}

// Where the kernel refuses to add a socket, its transfer ends by its timeout.
void CurlTransport::State::add_to_epoll(curl_socket_t socket) {
  epoll_event event{};
  event.events = socket_events.at(socket);
  event.data.fd = socket;
  const int epoll = sockets.native_handle();
  if (::epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) == 0) return;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
}

void CurlTransport::State::wait_for_sockets() {
  sockets.async_wait(boost::asio::posix::descriptor_base::wait_read,
                     [weak = weak_from_this()](const boost::system::error_code& failure) {
                       const auto self = weak.lock();
                       if (!self || self->closed || failure) return;
                       std::array<epoll_event, 64> events{};
                       const int count = ::epoll_wait(self->sockets.native_handle(), events.data(),
                                                      static_cast<int>(events.size()), 0);
                       for (int i = 0; i < count; ++i) {
                         const epoll_event& event = events.at(static_cast<std::size_t>(i));
                         // Without either of them libcurl checks the socket itself.
                         const int ready = ((event.events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                                           ((event.events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0);
                         int running = 0;
                         curl_multi_socket_action(self->multi.get(), event.data.fd, ready,
                                                  &running);
                       }
                       self->after_step();
                       if (!self->closed) self->wait_for_sockets();
                     });
}

void CurlTransport::State::submit(Owned transfer) {
  if (closed || transfer->closed()) return;
  if (exec && exec->state() == ExecPlugin::State::kFailed) {
    return transfer->finish(never_sent(exec->failure()));
  }
  if (transfer->is_stream()) {
    if (has_credential()) return start(std::move(transfer));
    return waiting_streams.push_back(std::move(transfer));
  }
  if (in_flight.size() + waiting.size() >= kApiRequestsInFlightMax) {
    return transfer->finish(
        never_sent(fmt::format("more than {} requests are in flight", kApiRequestsInFlightMax)));
  }
  wait_for_start(std::move(transfer));
}

void CurlTransport::State::wait_for_start(Owned transfer) {
  const Duration timeout = transfer->timeout();
  waiting.push_back({std::move(transfer), executor.now() + timeout});
  const bool connection = in_flight.size() - streams.size() < kApiConnectionsMax;
  if (connection && has_credential()) return start_waiting();
  executor.after(timeout, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->expire_waiting();
  });
}

void CurlTransport::State::expire_waiting() {
  const Instant now = executor.now();
  const auto expired = std::stable_partition(
      waiting.begin(), waiting.end(), [&](const Waiting& each) { return each.deadline > now; });
  std::vector<Waiting> late(std::make_move_iterator(expired),
                            std::make_move_iterator(waiting.end()));
  waiting.erase(expired, waiting.end());
  for (const Waiting& each : late) {
    if (closed) return;
    each.transfer->finish(never_sent(has_credential()
                                         ? "timed out while waiting for a free connection"
                                         : "timed out while waiting for the credential plugin"));
  }
}

// After a 401, with the next credential.
void CurlTransport::State::submit_again(Owned transfer) {
  if (!transfer->is_stream()) return wait_for_start(std::move(transfer));
  if (has_credential()) return start(std::move(transfer));
  waiting_streams.push_back(std::move(transfer));
}

void CurlTransport::State::on_exec_change() {
  const auto self = shared_from_this();
  if (closed) return;
  if (exec->state() == ExecPlugin::State::kFailed) return fail_waiting(exec->failure());
  for (Owned& stream : std::exchange(waiting_streams, {})) submit_again(std::move(stream));
  start_waiting();
}

void CurlTransport::State::fail_waiting(const std::string& why) {
  std::vector<Owned> all = std::exchange(waiting_streams, {});
  for (Waiting& each : std::exchange(waiting, {})) all.push_back(std::move(each.transfer));
  for (const Owned& transfer : all) {
    if (closed) return;
    if (!transfer->closed()) transfer->finish(never_sent(why));
  }
}

void CurlTransport::State::start_waiting() {
  while (!waiting.empty() && in_flight.size() - streams.size() < kApiConnectionsMax &&
         has_credential()) {
    Waiting next = std::move(waiting.front());
    waiting.pop_front();
    next.transfer->shorten_timeout(std::max(next.deadline - executor.now(), Duration(1)));
    start(std::move(next.transfer));
  }
}

void CurlTransport::State::start(Owned transfer) {
  transfer->prepare(config, endpoint, token.token(executor.now()),
                    exec ? exec->credential() : nullptr);
  CURL* easy = transfer->easy();
  if (transfer->is_stream()) streams.push_back(transfer.get());
  in_flight.emplace(easy, std::move(transfer));
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &State::on_open_socket);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, this);
  const CURLMcode code = curl_multi_add_handle(multi.get(), easy);
  MGPU_CHECK(code == CURLM_OK, "a transfer is added once, and not from inside libcurl");
}

// Called after libcurl has made progress, never from inside it.
void CurlTransport::State::after_step() {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    (void)streams[i]->deliver_lines(false);
    if (closed) return;
  }
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi.get(), &left)) {
    if (message->msg == CURLMSG_DONE) complete(message->easy_handle, message->data.result);
    if (closed) return;
  }
  start_waiting();
}

void CurlTransport::State::complete(CURL* easy, CURLcode code) {
  const auto self = shared_from_this();
  Owned transfer = take(easy);
  if (!transfer) return;
  if (code == CURLE_OK && !transfer->deliver_lines(true)) return;
  Response response = transfer->response(code);
  if (response.status == kUnauthorized && retry_unauthorized(transfer)) return;
  transfer->finish(std::move(response));
}

// A 401 has changed nothing, whatever the method. It is sent again with a new token or credential,
// and not a third time, since they are the same then; or once on a new connection, which presents
// the certificate that is in the file now.
bool CurlTransport::State::retry_unauthorized(Owned& transfer) {
  if (exec) {
    const bool replaced = transfer->use_new_credential() && exec->replaced(transfer->credential());
    if (replaced) submit_again(std::move(transfer));
    return replaced;
  }
  const bool new_token =
      !transfer->token().empty() && token.replaced(transfer->token(), executor.now());
  if (!new_token && !transfer->use_new_connection()) return false;
  start(std::move(transfer));
  return true;
}

// Removes the transfer from libcurl; null if it is unknown.
CurlTransport::State::Owned CurlTransport::State::take(CURL* easy) {
  const auto found = in_flight.find(easy);
  if (found == in_flight.end()) return nullptr;
  Owned transfer = std::move(found->second);
  in_flight.erase(found);
  std::erase(streams, transfer.get());
  const CURLMcode code = curl_multi_remove_handle(multi.get(), easy);
  MGPU_CHECK(code == CURLM_OK, "a transfer is not removed from inside libcurl");
  return transfer;
}

void CurlTransport::State::close() {
  closed = true;
  exec.reset();
  while (!in_flight.empty()) take(in_flight.begin()->first)->abandon();
  waiting.clear();
  waiting_streams.clear();
  multi.reset();
  sockets.close();
  executor.cancel(timer);
}

CurlTransport::CurlTransport(std::shared_ptr<State> state) : state_(std::move(state)) {}

CurlTransport::~CurlTransport() {
  state_->close();
}

Result<std::unique_ptr<CurlTransport>> CurlTransport::create(Config config,
                                                             AsioExecutor& executor) {
  const auto endpoint = endpoint_of(config);
  if (!endpoint) return endpoint.error();
  const auto checked = check_credentials(config);
  if (!checked) return checked.error();
  auto token = TokenSource::create(config, executor.now());
  if (!token) return token.error();
  std::unique_ptr<ExecPlugin> exec;
  const auto state_of_exec = std::make_shared<std::weak_ptr<State>>();
  if (config.exec) {
    auto created = ExecPlugin::create(config, executor, [state_of_exec] {
      if (const auto self = state_of_exec->lock()) self->on_exec_change();
    });
    if (!created) return created.error();
    exec = std::move(*created);
  }
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) {
    return error("cannot create an epoll descriptor: " + std::generic_category().message(errno));
  }
  auto state = std::make_shared<State>(std::move(config), *endpoint, std::move(*token),
                                       std::move(exec), executor, epoll);
  *state_of_exec = state;
  state->wait_for_sockets();
  return std::unique_ptr<CurlTransport>(new CurlTransport(std::move(state)));
}

void CurlTransport::send(Request request, std::function<void(Response)> done) {
  auto transfer = std::make_shared<State::Owned>(
      std::make_unique<CurlTransfer>(std::move(request), std::move(done)));
  state_->executor.post([weak = state_->weak_from_this(), transfer] {
    if (const auto self = weak.lock()) self->submit(std::move(*transfer));
  });
}

std::unique_ptr<Stream> CurlTransport::stream(Request request, StreamEvents events) {
  auto closed = std::make_shared<std::atomic<bool>>(false);
  auto transfer = std::make_shared<State::Owned>(
      std::make_unique<CurlTransfer>(std::move(request), std::move(events), closed));
  const std::weak_ptr<State> weak = state_->weak_from_this();
  state_->executor.post([weak, transfer] {
    if (const auto self = weak.lock()) self->submit(std::move(*transfer));
  });
  // Not at once: this may be running inside the stream's own handler.
  return std::make_unique<CurlStream>(std::move(closed), [weak] {
    const auto state = weak.lock();
    if (!state) return;
    state->executor.post([weak] {
      const auto self = weak.lock();
      if (!self || self->closed) return;
      const std::vector<CurlTransfer*> all = self->streams;
      for (const CurlTransfer* stream : all) {
        if (stream->closed()) self->take(stream->easy());
      }
    });
  });
}

Executor& CurlTransport::executor() {
  return state_->executor;
}

}  // namespace mgpu::kube
