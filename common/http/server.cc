#include "common/http/server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/text.h"
#include "common/http/limits.h"
#include "common/http/session.h"
#include "common/http/tls.h"

namespace mgpu::http {

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 34\r\n"
    "Connection: close\r\n\r\n{\"error\": \"too many connections\"}\n";

std::string lower_first(std::string text) {
  if (!text.empty()) text[0] = to_lower(text[0]);
  return text;
}

}  // namespace

struct Server::State {
  State(ServerOptions options, Handler handler, ServerEvents events)
      : setup{std::move(options), std::move(handler), std::move(events)} {}

  Result<void> listen();
  void run();
  void drain();
  bool wait_drained(std::chrono::milliseconds timeout);
  // Ends all threads; what they were doing is dropped.
  void cut();

  asio::awaitable<void> accept();
  void admit(tcp::socket socket);
  void reject(tcp::socket socket) const;
  void leave(Session* session);
  void count_connections() const MGPU_REQUIRES(mutex);  // so that counts come in order
  void drain_sessions();
  asio::awaitable<void> reload_tls();
  void tell_problem(const std::string& problem) const;

  SessionSetup setup;
  std::unique_ptr<Tls> tls;  // null: plain HTTP
  std::uint16_t port = 0;
  Mutex mutex;
  ConditionVariable ended;
  std::map<Session*, std::weak_ptr<Session>> sessions MGPU_GUARDED_BY(mutex);
  bool accepting MGPU_GUARDED_BY(mutex) = true;
  std::vector<std::thread> threads;
  // Destroyed first: sessions refer to the members above.
  asio::io_context context;
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::strand<asio::io_context::executor_type> strand{context.get_executor()};
  tcp::acceptor acceptor{strand};
  asio::steady_timer accept_retry{strand};
  asio::steady_timer reload_timer{strand};
};

Result<void> Server::State::listen() {
  const ServerOptions& options = setup.options;
  error_code failed;
  const auto address = asio::ip::make_address(options.address, failed);
  if (failed) return error("listen address \"" + options.address + "\" is not an IP address");
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed) port = acceptor.local_endpoint(failed).port();
  if (!failed) return {};
  const std::string host = address.is_v6() ? "[" + options.address + "]" : options.address;
  return error("cannot listen on " + host + ":" + std::to_string(options.port) + ": " +
               lower_first(failed.message()));
}

void Server::State::run() {
  asio::co_spawn(strand, accept(), [](std::exception_ptr) {});
  if (tls) asio::co_spawn(strand, reload_tls(), [](std::exception_ptr) {});
  for (std::size_t i = 0; i < std::max<std::size_t>(setup.options.threads, 1); ++i) {
    threads.emplace_back([this] { context.run(); });
  }
}

asio::awaitable<void> Server::State::accept() {
  bool told = false;
  while (!setup.draining) {
    tcp::socket socket(asio::make_strand(context));
    const auto [failed] = co_await acceptor.async_accept(socket, kAwait);
    if (!failed) {
      told = false;
      admit(std::move(socket));
    } else if (!setup.draining) {
      if (!std::exchange(told, true))
        tell_problem("cannot accept connections: " + failed.message());
      accept_retry.expires_after(kHttpAcceptRetry);
      co_await accept_retry.async_wait(kAwait);
    }
  }
}

void Server::State::admit(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  const MutexLock lock(mutex);
  if (!accepting) return;
  if (sessions.size() >= setup.options.connections_max) return reject(std::move(socket));
  auto connection = Connection::over(std::move(socket), tls ? tls->context() : nullptr);
  auto session = std::make_shared<Session>(std::move(connection), setup);
  sessions.emplace(session.get(), session);
  count_connections();
  asio::co_spawn(session->executor(), session->run(), [this, session](std::exception_ptr failed) {
    if (failed) tell_problem("a connection ended by an exception");
    leave(session.get());
  });
}

// The answer fits any socket's buffer, so that nobody needs to wait for it.
void Server::State::reject(tcp::socket socket) const {
  setup.refused("too_many_connections");
  if (tls) return;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(kTooMany), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void Server::State::leave(Session* session) {
  const MutexLock lock(mutex);
  sessions.erase(session);
  count_connections();
  ended.notify_all();
}

void Server::State::count_connections() const {
  if (setup.events.on_connections) setup.events.on_connections(sessions.size());
}

asio::awaitable<void> Server::State::reload_tls() {
  while (!setup.draining) {
    reload_timer.expires_after(setup.options.tls_reload_interval);
    co_await reload_timer.async_wait(kAwait);
    if (setup.draining) co_return;
    const auto reloaded = tls->reload();
    if (!reloaded) tell_problem(reloaded.error().message + "; the certificate in use stays");
  }
}

void Server::State::tell_problem(const std::string& problem) const {
  if (setup.events.on_problem) setup.events.on_problem(problem);
}

void Server::State::drain() {
  if (setup.draining.exchange(true)) return;
  asio::post(strand, [this] {
    error_code ignored;
    acceptor.close(ignored);
    accept_retry.cancel();
    reload_timer.cancel();
    drain_sessions();
  });
}

void Server::State::drain_sessions() {
  const MutexLock lock(mutex);
  accepting = false;
  for (const auto& [key, weak] : sessions) {
    const auto session = weak.lock();
    if (session) asio::post(session->executor(), [session] { session->drain(); });
  }
  ended.notify_all();
}

bool Server::State::wait_drained(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex);
  return ended.wait_for(lock, timeout,
                        [this]() MGPU_REQUIRES(mutex) { return !accepting && sessions.empty(); });
}

void Server::State::cut() {
  context.stop();
  for (std::thread& thread : threads) thread.join();
}

Server::Server(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler handler,
                                              ServerEvents events) {
  auto state = std::make_shared<State>(std::move(options), std::move(handler), std::move(events));
  const TlsOptions& tls = state->setup.options.tls;
  if (!tls.certificate_file.empty()) {
    auto loaded = Tls::load(tls);
    if (!loaded) return loaded.error();
    state->tls = std::move(*loaded);
  } else if (!tls.key_file.empty() || !tls.client_ca_file.empty()) {
    return error("a TLS key or client CA file needs a certificate file");
  }
  if (auto listening = state->listen(); !listening) return listening.error();
  state->run();
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
  drain();
  wait_drained(state_->setup.options.drain_timeout);
  state_->cut();
}

std::uint16_t Server::port() const {
  return state_->port;
}
void Server::drain() {
  state_->drain();
}
bool Server::wait_drained(std::chrono::milliseconds timeout) {
  return state_->wait_drained(timeout);
}

}  // namespace mgpu::http
