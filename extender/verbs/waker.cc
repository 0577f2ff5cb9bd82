#include "extender/verbs/waker.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/limits.h"
#include "extender/verbs/call_gate.h"
#include "extender/verbs/wake_list.h"

namespace mgpu::verbs {
namespace {

constexpr const char* kStorageClass = "mgpu-no-such-class";
constexpr const char* kAnnotation = "mgpu-wake";

using Kind = kube::ApiError::Kind;

bool needs_somebody(Kind kind) {
  return kind == Kind::kRefused || kind == Kind::kNotFound;
}

std::string sentence(const kube::ApiError& problem) {
  return problem.message +
         (needs_somebody(problem.kind)
              ? "; apply deploy/rbac/extender.yaml, with the namespace that --wake-namespace names"
              : "; trying again");
}

}  // namespace

struct Waker::State : std::enable_shared_from_this<State> {
  State(kube::Client& its_client, const ledger::Ledger& its_ledger, std::string its_space,
        WakerEvents its_events);

  Executor& executor() { return client.executor(); }
  void arm();  // REQUIRES: mutex is held
  void look();
  bool begin(std::uint64_t releases, Instant now);

  // Below: on the executor.
  using Done = void (State::*)(const kube::ApiResult<void>&);
  kube::StorageCapacity object();
  void write(kube::Request request, Done done);
  void on_patched(const kube::ApiResult<void>& patched);
  void on_created(const kube::ApiResult<void>& created);
  void woken();
  void failed(const kube::ApiError& problem);

  kube::Client& client;
  const ledger::Ledger& ledger;
  const std::string space;
  const WakerEvents events;
  CallGate gate;
  std::mutex mutex;
  WakeList list;       // protected by mutex
  bool armed = false;  // protected by mutex
  // Below: on the executor.
  const std::uint32_t start;  // tells the values of one process from those of another
  std::uint64_t written = 0;
  Duration retry{limits::kWakeRetryFirst};
  std::string told;  // the last problem, while it lasts
};

Waker::State::State(kube::Client& its_client, const ledger::Ledger& its_ledger,
                    std::string its_space, WakerEvents its_events)
    : client(its_client),
      ledger(its_ledger),
      space(std::move(its_space)),
      events(std::move(its_events)),
      start(static_cast<std::uint32_t>(client.executor().random() * 0x1p32)) {}

void Waker::State::arm() {
  armed = true;
  executor().after(limits::kWakeLook,
                   [self = shared_from_this()] { self->gate.run([&] { self->look(); }); });
}

void Waker::State::look() {
  if (!begin(ledger.releases(), executor().now())) return;
  write(kube::annotate_storage_capacity(object()), &State::on_patched);
}

bool Waker::State::begin(std::uint64_t releases, Instant now) {
  const std::lock_guard lock(mutex);
  list.observe(releases, now);
  armed = false;
  if (!list.empty()) arm();
  const auto due = list.due();
  if (!due || *due > now) return false;
  list.sent(now);
  return true;
}

kube::StorageCapacity Waker::State::object() {
  // A write that changes nothing would be no event.
  return {.space = space,
          .name = kWakeObject,
          .storage_class = kStorageClass,
          .annotation = kAnnotation,
          .value = fmt::format("{:08x}-{}", start, ++written)};
}

void Waker::State::write(kube::Request request, Done done) {
  request.timeout = limits::kWakeTimeout;
  client.write(std::move(request), "wake kube-scheduler",
               [self = shared_from_this(), done](const kube::ApiResult<void>& result) {
                 self->gate.run([&] { (*self.*done)(result); });
               });
}

void Waker::State::on_patched(const kube::ApiResult<void>& patched) {
  if (patched) return woken();
  if (patched.error().kind != Kind::kNotFound) return failed(patched.error());
  write(kube::create_storage_capacity(object()), &State::on_created);
}

void Waker::State::on_created(const kube::ApiResult<void>& created) {
  if (created || created.error().kind == Kind::kConflict) return woken();
  failed(created.error());
}

void Waker::State::woken() {
  {
    const std::lock_guard lock(mutex);
    list.woken();
  }
  retry = limits::kWakeRetryFirst;
  told.clear();
  events.on_outcome(WakeOutcome::kWoken);
}

void Waker::State::failed(const kube::ApiError& problem) {
  {
    const std::lock_guard lock(mutex);
    list.failed(executor().now() + retry);
  }
  retry = std::min(2 * retry, Duration(limits::kWakeRetryMax));
  events.on_outcome(needs_somebody(problem.kind) ? WakeOutcome::kRefused : WakeOutcome::kFailed);
  std::string now = sentence(problem);
  if (now == told) return;
  told = std::move(now);
  events.on_problem(told);
}

Waker::Waker(kube::Client& client, const ledger::Ledger& ledger, std::string space,
             WakerEvents events)
    : state_(std::make_shared<State>(client, ledger, std::move(space), std::move(events))) {}

Waker::~Waker() {
  state_->gate.close();
}

void Waker::asked(const PodUid& uid) {
  const Instant now = state_->executor().now();
  const std::lock_guard lock(state_->mutex);
  state_->list.asked(uid, now);
}

void Waker::refused(const PodUid& uid, std::uint64_t releases) {
  if (state_->space.empty() || uid.empty()) return;
  const Instant now = state_->executor().now();
  const std::lock_guard lock(state_->mutex);
  state_->list.refused(uid, releases, now);
  if (!state_->armed) state_->arm();
}

void Waker::gone(const PodUid& uid) {
  const std::lock_guard lock(state_->mutex);
  state_->list.gone(uid);
}

}  // namespace mgpu::verbs
