#include "bench/latency/cluster_feed.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/latency/limits.h"
#include "bench/latency/requests.h"
#include "bench/scale/cluster_objects.h"
#include "common/kube/object_protobuf.h"

namespace mgpu::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

// The number after `name`; 0 if there is none.
std::size_t number_after(std::string_view target, std::string_view name) {
  std::size_t at = target.find(name);
  std::size_t number = 0;
  if (at == std::string_view::npos) return number;
  at += name.size();
  std::from_chars(target.data() + at, target.data() + target.size(), number);
  return number;
}

std::string page(std::string_view target, std::size_t count, std::string (*object)(std::size_t)) {
  const std::size_t begin = number_after(target, "continue=");
  const std::size_t end =
      std::min(count, begin + std::max<std::size_t>(number_after(target, "limit="), 1));
  std::string text = R"({"metadata":{"resourceVersion":"1")";
  if (end < count) text += R"(,"continue":")" + std::to_string(end) + '"';
  text += R"(},"items":[)";
  for (std::size_t i = begin; i < end; ++i) text.append(i > begin ? "," : "").append(object(i));
  return text + "]}";
}

std::string pod_shown_bound(const kube::Binding& binding) {
  return bound_pod(number_after(binding.pod.name, "bound-"), binding.node.str(),
                   Json(binding.annotations).dump());
}

}  // namespace

std::string watch_line(std::string_view type, std::string_view object) {
  std::string line = R"({"type":")";
  line.append(type).append(R"(","object":)").append(object).append("}");
  return line;
}

// Used on the executor only, except `bind_took`.
struct ClusterFeed::State : std::enable_shared_from_this<ClusterFeed::State> {
  State(Executor& its_executor, ClusterSize its_size) : executor(its_executor), size(its_size) {}

  std::string list(const std::string& target) const;
  void take(const kube::Request& request, const std::function<void(kube::Response)>& done);
  void serve_lease(const kube::Request& request, const std::function<void(kube::Response)>& done);
  void bind(const kube::Request& request, Clock::time_point begun,
            const std::function<void(kube::Response)>& done);
  void show(const std::string& pod);
  void send_line(const std::string& line) {
    if (pods && pods->on_line) pods->on_line(line);
  }

  Executor& executor;
  const ClusterSize size;
  std::shared_ptr<kube::StreamHandlers> pods;
  std::deque<std::string> bound;
  std::string holder;  // of the Lease
  std::chrono::nanoseconds lease_took{};
  std::atomic<std::chrono::nanoseconds> bind_took{};
};

namespace {

struct OpenStream final : kube::Stream {
  explicit OpenStream(std::shared_ptr<kube::StreamHandlers> its) : handlers(std::move(its)) {}
  ~OpenStream() override { *handlers = {}; }
  std::shared_ptr<kube::StreamHandlers> handlers;
};

kube::Response answer(int status, std::string body) {
  return {.status = status, .body = std::move(body), .retry_after = {}, .failure = {}};
}

// The answer of a server that knows preconditions, when it is asked with a wrong one.
constexpr const char* kPreconditionFailed =
    R"({"kind":"Status","code":409,"message":"ResourceVersion in precondition: 1"})";

}  // namespace

std::string ClusterFeed::State::list(const std::string& target) const {
  if (target.find("spec.nodeName%3D%2C") != std::string::npos) return page(target, 0, nullptr);
  if (target.starts_with("/api/v1/nodes")) return page(target, size.nodes, node_object);
  if (target.starts_with("/api/v1/pods")) return page(target, size.pods, pod_object);
  return page(target, 0, nullptr);
}

void ClusterFeed::State::take(const kube::Request& request,
                              const std::function<void(kube::Response)>& done) {
  const std::string& target = request.target;
  if (target.find("dryRun=") != std::string::npos) return done(answer(409, kPreconditionFailed));
  const bool lease = target.find("/leases/") != std::string::npos;
  if (!lease && target.find("/binding") == std::string::npos) {
    return done(answer(200, list(target)));
  }
  executor.after(limits::kApiServerDelay,
                 [self = shared_from_this(), lease, request, done, begun = Clock::now()] {
                   if (!lease) return self->bind(request, begun, done);
                   self->lease_took = Clock::now() - begun;
                   self->serve_lease(request, done);
                 });
}

void ClusterFeed::State::serve_lease(const kube::Request& request,
                                     const std::function<void(kube::Response)>& done) {
  if (!request.body.empty()) holder = Json::parse(request.body)["spec"]["holderIdentity"];
  done(answer(200,
              Json{{"metadata", {{"resourceVersion", "1"}}}, {"spec", {{"holderIdentity", holder}}}}
                  .dump()));
}

void ClusterFeed::State::bind(const kube::Request& request, Clock::time_point begun,
                              const std::function<void(kube::Response)>& done) {
  bind_took = lease_took + (Clock::now() - begun);
  done(answer(201, R"({"kind":"Status","status":"Success"})"));
  // The event follows later, so that its creation does not delay the next bind.
  executor.after(limits::kWatchDelay, [self = shared_from_this(), body = request.body] {
    self->show(pod_shown_bound(kube::read_binding_protobuf(body).value()));
  });
}

void ClusterFeed::State::show(const std::string& pod) {
  send_line(watch_line("MODIFIED", pod));
  bound.push_back(pod);
  if (bound.size() <= limits::kBoundPodsKept) return;
  send_line(watch_line("DELETED", bound.front()));
  bound.pop_front();
}

ClusterFeed::ClusterFeed(Executor& executor, ClusterSize size)
    : state_(std::make_shared<State>(executor, size)) {}
ClusterFeed::~ClusterFeed() = default;

void ClusterFeed::send(kube::Request request, std::function<void(kube::Response)> done) {
  state_->executor.post([state = state_, request = std::move(request), done = std::move(done)] {
    state->take(request, done);
  });
}

std::unique_ptr<kube::Stream> ClusterFeed::stream(kube::Request request,
                                                  kube::StreamHandlers handlers) {
  auto shared = std::make_shared<kube::StreamHandlers>(std::move(handlers));
  const bool pods = request.target.starts_with("/api/v1/pods");
  state_->executor.post([state = state_, shared, pods] {
    if (pods) state->pods = shared;
    if (shared->on_open) shared->on_open();
  });
  return std::make_unique<OpenStream>(std::move(shared));
}

Executor& ClusterFeed::executor() {
  return state_->executor;
}

void ClusterFeed::send_pod_line(std::string line) {
  state_->executor.post([state = state_, line = std::move(line)] { state->send_line(line); });
}

std::chrono::nanoseconds ClusterFeed::bind_took() const {
  return state_->bind_took;
}

}  // namespace mgpu::bench
