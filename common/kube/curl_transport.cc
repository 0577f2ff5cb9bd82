#include "common/kube/curl_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "common/kube/curl_loop.h"
#include "common/kube/curl_transfer.h"
#include "common/kube/limits.h"
#include "common/kube/pem.h"
#include "common/kube/token_source.h"

namespace mgpu::kube {
namespace {

constexpr int kUnauthorized = 401;

Response never_sent(std::string why) {
  Response response;
  response.failure = TransportFailure{std::move(why), false};
  return response;
}

}  // namespace

// Everything but the constructor runs on the executor. Handlers may send, close streams and let the
// transport go: after each call of one, nothing is touched before `closed` has been asked.
struct CurlTransport::State : std::enable_shared_from_this<State> {
  using Owned = std::unique_ptr<CurlTransfer>;
  struct Waiting {
    Owned transfer;
    Instant deadline;
  };

  State(Config its_config, Endpoint its_endpoint, TokenSource its_token, AsioExecutor& its_executor)
      : config(std::move(its_config)),
        endpoint(std::move(its_endpoint)),
        token(std::move(its_token)),
        executor(its_executor) {}

  void submit(Owned transfer);
  void enqueue(Owned transfer);
  void expire_waiting();
  void start_waiting();
  void start(Owned transfer);
  void after_step();
  bool deliver_streams();
  void complete(CurlLoop::Done done);
  bool worth_another_try(const CurlTransfer& transfer, const Response& response);
  void forget_closed_streams();
  Owned take(CURL* easy);
  void close();

  const Config config;
  const Endpoint endpoint;
  TokenSource token;
  AsioExecutor& executor;
  std::shared_ptr<CurlLoop> loop;
  std::unordered_map<CURL*, Owned> on_their_way;
  std::vector<CurlTransfer*> streams;  // of on_their_way
  std::deque<Waiting> waiting;
  bool closed = false;
};

void CurlTransport::State::submit(Owned transfer) {
  if (closed || transfer->closed()) return;
  if (transfer->is_stream()) return start(std::move(transfer));
  if (on_their_way.size() + waiting.size() >= kApiRequestsInFlightMax) {
    return transfer->finish(
        never_sent(fmt::format("more than {} requests are on their way", kApiRequestsInFlightMax)));
  }
  enqueue(std::move(transfer));
  start_waiting();
}

void CurlTransport::State::enqueue(Owned transfer) {
  const Duration asked = transfer->request().timeout;
  const Duration timeout = asked > Duration(0) ? asked : Duration(kApiRequestTimeout);
  waiting.push_back({std::move(transfer), executor.now() + timeout});
  if (on_their_way.size() - streams.size() < kApiConnectionsMax) return;
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
    each.transfer->finish(never_sent("timed out while waiting for a free connection"));
  }
}

void CurlTransport::State::start_waiting() {
  while (!waiting.empty() && on_their_way.size() - streams.size() < kApiConnectionsMax) {
    Waiting next = std::move(waiting.front());
    waiting.pop_front();
    next.transfer->shorten_timeout(std::max(next.deadline - executor.now(), Duration(1)));
    start(std::move(next.transfer));
  }
}

void CurlTransport::State::start(Owned transfer) {
  transfer->prepare(config, endpoint, token.token(executor.now()));
  CURL* easy = transfer->easy();
  if (transfer->is_stream()) streams.push_back(transfer.get());
  on_their_way.emplace(easy, std::move(transfer));
  loop->add(easy);
}

void CurlTransport::State::after_step() {
  if (!deliver_streams()) return;
  while (const auto done = loop->next_done()) {
    complete(*done);
    if (closed) return;
  }
  start_waiting();
}

// False: the transport is gone.
bool CurlTransport::State::deliver_streams() {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    (void)streams[i]->deliver_lines(false);
    if (closed) return false;
  }
  return true;
}

void CurlTransport::State::complete(CurlLoop::Done done) {
  const auto self = shared_from_this();
  Owned transfer = take(done.transfer);
  if (!transfer) return;
  if (done.code == CURLE_OK && !transfer->deliver_lines(true)) return;
  Response response = transfer->response(done.code);
  if (worth_another_try(*transfer, response)) return start(std::move(transfer));
  transfer->finish(std::move(response));
}

// A 401 has changed nothing, whatever the method. With a new token it is asked again, and not a
// third time, since then the token is no longer another one.
bool CurlTransport::State::worth_another_try(const CurlTransfer& transfer,
                                             const Response& response) {
  return response.status == kUnauthorized && !transfer.token().empty() &&
         token.replaced(transfer.token(), executor.now());
}

void CurlTransport::State::forget_closed_streams() {
  const std::vector<CurlTransfer*> all = streams;
  for (const CurlTransfer* stream : all) {
    if (stream->closed()) take(stream->easy());
  }
}

// Out of libcurl's hands; none where it is not known.
CurlTransport::State::Owned CurlTransport::State::take(CURL* easy) {
  const auto found = on_their_way.find(easy);
  if (found == on_their_way.end()) return nullptr;
  Owned transfer = std::move(found->second);
  on_their_way.erase(found);
  std::erase(streams, transfer.get());
  loop->remove(easy);
  return transfer;
}

void CurlTransport::State::close() {
  closed = true;
  while (!on_their_way.empty()) take(on_their_way.begin()->first)->abandon();
  waiting.clear();
  loop.reset();
}

namespace {

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

}  // namespace

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
  auto state = std::make_shared<State>(std::move(config), *endpoint, std::move(*token), executor);
  state->loop = std::make_shared<CurlLoop>(executor, [weak = state->weak_from_this()] {
    if (const auto self = weak.lock(); self && !self->closed) self->after_step();
  });
  return std::unique_ptr<CurlTransport>(new CurlTransport(std::move(state)));
}

void CurlTransport::send(Request request, std::function<void(Response)> done) {
  auto transfer = std::make_shared<State::Owned>(
      std::make_unique<CurlTransfer>(std::move(request), std::move(done)));
  state_->executor.post([weak = state_->weak_from_this(), transfer] {
    if (const auto self = weak.lock()) self->submit(std::move(*transfer));
  });
}

std::unique_ptr<Stream> CurlTransport::stream(Request request, StreamHandlers handlers) {
  auto closed = std::make_shared<std::atomic<bool>>(false);
  auto transfer = std::make_shared<State::Owned>(
      std::make_unique<CurlTransfer>(std::move(request), std::move(handlers), closed));
  const std::weak_ptr<State> weak = state_->weak_from_this();
  state_->executor.post([weak, transfer] {
    if (const auto self = weak.lock()) self->submit(std::move(*transfer));
  });
  // Not at once: this may be running inside the stream's own handler.
  return std::make_unique<CurlStream>(std::move(closed), [weak] {
    const auto state = weak.lock();
    if (!state) return;
    state->executor.post([weak] {
      if (const auto self = weak.lock(); self && !self->closed) self->forget_closed_streams();
    });
  });
}

Executor& CurlTransport::executor() {
  return state_->executor;
}

}  // namespace mgpu::kube
