#include "common/http/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/text.h"
#include "common/http/address.h"
#include "common/http/admission.h"
#include "common/http/limits.h"
#include "common/http/session.h"
#include "common/http/tls.h"

namespace mgpu::http {

namespace {

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 34\r\n"
    "Connection: close\r\n\r\n{\"error\": \"too many connections\"}\n";

// An IPv4 address also where an IPv6 socket has accepted it. Empty if the client has disconnected.
std::string address_of(const tcp::socket& socket) {
  error_code failed;
  const auto address = socket.remote_endpoint(failed).address();
  if (failed) return {};
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
}

// One thread and its connections. A context of all threads would pass each request between them,
// which takes longer than to filter 1,000 nodes.
struct Worker {
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;
  std::atomic<std::size_t> sessions = 0;
};

class Workers {
 public:
  explicit Workers(std::size_t count) {
    for (std::size_t i = 0; i < std::max<std::size_t>(count, 1); ++i) {
      all_.push_back(std::make_unique<Worker>());
    }
  }
  // The first one first: its coroutine that accepts connections has a socket of another one.
  ~Workers() {
    for (auto& worker : all_) worker.reset();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  const std::vector<std::unique_ptr<Worker>>& all() const { return all_; }
  asio::io_context& first() { return all_.front()->context; }
  // The one with the fewest sessions.
  Worker& least_used() const {
    return **std::ranges::min_element(all_, {},
                                      [](const auto& worker) { return worker->sessions.load(); });
  }

 private:
  std::vector<std::unique_ptr<Worker>> all_;
};

}  // namespace

struct Server::State {
  State(ServerOptions options, Handler handler, ServerEvents events)
      : setup{std::move(options), std::move(handler), std::move(events)},
        workers(setup.options.threads) {
    setup.loopback = is_loopback(setup.options.address);
    if (!setup.options.tls.http2) return;
    handlers.emplace(std::max<std::size_t>(setup.options.threads, 1));
    setup.handlers = handlers->get_executor();
  }

  Result<void> listen();
  asio::awaitable<void> accept();
  void accept_or_reject(tcp::socket socket, Worker& worker);
  void reject(tcp::socket socket, const char* why) const;
  Admission admission_of(const std::string& address) MGPU_REQUIRES(mutex);
  void begin_session(tcp::socket socket, std::string address, Worker& worker) MGPU_REQUIRES(mutex);
  // Reports the count under the lock, so that the counts are in order.
  void count_connections() const MGPU_REQUIRES(mutex);
  asio::awaitable<void> reload_tls();
  void report(const std::string& problem) const;

  SessionSetup setup;
  std::unique_ptr<Tls> tls;  // null: plain HTTP
  std::uint16_t port = 0;
  Mutex mutex;
  ConditionVariable ended;
  std::map<Session*, std::weak_ptr<Session>> sessions MGPU_GUARDED_BY(mutex);
  bool accepting MGPU_GUARDED_BY(mutex) = true;
  std::optional<asio::thread_pool> handlers;
  // Sessions end with their workers, and use the members above.
  Workers workers;
  // On the first worker, and destroyed before it.
  tcp::acceptor acceptor{workers.first()};
  asio::steady_timer accept_retry{workers.first()};
  asio::steady_timer reload_timer{workers.first()};
};

Result<void> Server::State::listen() {
  const ServerOptions& options = setup.options;
  error_code failed;
  const auto address = asio::ip::make_address(options.address, failed);
  if (failed) {
    return error("listen address " + in_quotes(options.address) + " is not an IP address");
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(asio::socket_base::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (!failed) port = acceptor.local_endpoint(failed).port();
  if (!failed) return {};
  std::string reason = failed.message();
  reason[0] = to_lower(reason[0]);
  const std::string host = address.is_v6() ? "[" + options.address + "]" : options.address;
  return error(fmt::format("cannot listen on {}:{}: {}", host, options.port, reason));
}

asio::awaitable<void> Server::State::accept() {
  bool reported = false;
  while (!setup.draining) {
    Worker& worker = workers.least_used();
    tcp::socket socket(worker.context);
    const auto [failed] = co_await acceptor.async_accept(socket, kAwait);
    if (!failed) {
      reported = false;
      accept_or_reject(std::move(socket), worker);
    } else if (!setup.draining) {
      if (!std::exchange(reported, true)) {
        report("cannot accept connections: " + failed.message());
      }
      accept_retry.expires_after(kHttpAcceptRetry);
      co_await accept_retry.async_wait(kAwait);
    }
  }
}

void Server::State::accept_or_reject(tcp::socket socket, Worker& worker) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  std::string address = address_of(socket);
  const MutexLock lock(mutex);
  if (!accepting) return;
  const Admission admission = admission_of(address);
  if (admission.refused != nullptr) return reject(std::move(socket), admission.refused);
  if (tls && !tls->context()) return reject(std::move(socket), "no_certificate");
  begin_session(std::move(socket), std::move(address), worker);
}

// Begins to close the connection whose place the new one takes.
Admission Server::State::admission_of(const std::string& address) {
  const ServerOptions& options = setup.options;
  // Then no limit is reached. Go's clients keep two idle connections, and open others for each
  // burst.
  if (sessions.size() <
      std::min({options.connections_max, options.connections_per_address_max, kHttpClosingMax})) {
    return {};
  }
  std::vector<OpenConnection> open;
  std::vector<std::shared_ptr<Session>> alive;
  for (const auto& [key, weak] : sessions) {
    auto session = weak.lock();
    if (!session) continue;
    open.push_back(session->record().state());
    alive.push_back(std::move(session));
  }
  const Admission admission =
      admit(address, open,
            {.total = options.connections_max, .per_address = options.connections_per_address_max});
  if (!admission.closes) return admission;
  MGPU_DEBUG_CHECK(alive.size() == open.size() && *admission.closes < alive.size(),
                   "the connection that is closed is one that is open");
  const auto& closed = alive[*admission.closes];
  closed->record().set_closing(true);
  asio::post(closed->connection().executor(), [closed] { closed->close_for_another(); });
  return admission;
}

void Server::State::begin_session(tcp::socket socket, std::string address, Worker& worker) {
  const auto session = std::make_shared<Session>(std::move(socket), std::move(address),
                                                 tls ? tls->context() : nullptr, setup);
  sessions.emplace(session.get(), session);
  count_connections();
  ++worker.sessions;
  asio::co_spawn(session->connection().executor(), session->run(),
                 [this, session, &worker](std::exception_ptr failed) {
                   if (failed) report("a connection was closed by an exception");
                   MGPU_DEBUG_CHECK(worker.sessions > 0, "a session that has begun ends once");
                   --worker.sessions;
                   const MutexLock ending(mutex);
                   sessions.erase(session.get());
                   count_connections();
                   ended.notify_all();
                 });
}

// The response fits into the buffer of every socket, so the write does not have to wait.
void Server::State::reject(tcp::socket socket, const char* why) const {
  setup.refused(why);
  if (tls) return;
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(kTooMany), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
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
    if (!reloaded) report(reloaded.error().message + "; the old certificate stays in use");
  }
}

void Server::State::report(const std::string& problem) const {
  if (setup.events.on_problem) setup.events.on_problem(problem);
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler handler,
                                              ServerEvents events) {
  auto state = std::make_unique<State>(std::move(options), std::move(handler), std::move(events));
  const TlsOptions& tls = state->setup.options.tls;
  if (!tls.client_names.empty() && tls.client_ca_file.empty() && !tls.from_texts) {
    return error("names of client certificates need a client CA file");
  }
  if (tls.from_texts) {
    state->tls = Tls::from_texts(tls);
  } else if (!tls.certificate_file.empty()) {
    auto loaded = Tls::load(tls);
    if (!loaded) return loaded.error();
    state->tls = std::move(*loaded);
  } else if (!tls.key_file.empty() || !tls.client_ca_file.empty()) {
    return error("a TLS key or client CA file needs a certificate file");
  }
  if (auto listening = state->listen(); !listening) return listening.error();
  asio::io_context& first = state->workers.first();
  asio::co_spawn(first, state->accept(), asio::detached);
  if (state->tls && !state->setup.options.tls.from_texts) {
    asio::co_spawn(first, state->reload_tls(), asio::detached);
  }
  for (const auto& worker : state->workers.all()) {
    worker->thread = std::thread([&context = worker->context] { context.run(); });
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
  drain();
  wait_drained(state_->setup.options.drain_timeout);
  for (const auto& worker : state_->workers.all()) worker->context.stop();
  for (const auto& worker : state_->workers.all()) worker->thread.join();
  if (!state_->handlers) return;
  state_->handlers->stop();
  state_->handlers->join();
}

std::uint16_t Server::port() const {
  return state_->port;
}

Result<void> Server::use_tls(const TlsTexts& texts) {
  MGPU_CHECK(state_->setup.options.tls.from_texts, "the server was started to get texts");
  return state_->tls->use(texts);
}

void Server::drain() {
  if (state_->setup.draining.exchange(true)) return;
  asio::post(state_->workers.first(), [state = state_.get()] {
    error_code ignored;
    state->acceptor.close(ignored);
    state->accept_retry.cancel();
    state->reload_timer.cancel();
    const MutexLock lock(state->mutex);
    state->accepting = false;
    for (const auto& [key, weak] : state->sessions) {
      const auto session = weak.lock();
      if (session) asio::post(session->connection().executor(), [session] { session->drain(); });
    }
    state->ended.notify_all();
  });
}

bool Server::wait_drained(std::chrono::milliseconds timeout) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  return state.ended.wait_for(lock, timeout, [&]() MGPU_REQUIRES(state.mutex) {
    return !state.accepting && state.sessions.empty();
  });
}

}  // namespace mgpu::http
