#include "common/kube/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

// A DNS subdomain (apimachinery util/validation) without a dot and 16 digits.
constexpr std::size_t kNameBeforeDigitsMax = 253 - 17;
// kubernetes pkg/apis/core/validation/events.go
constexpr std::size_t kReasonMax = 128;

// Unique among the events of this object. kubelet puts the time in place of the random digits.
std::string event_name_of(std::string_view object, Executor& executor) {
  std::string_view base = object.substr(0, kNameBeforeDigitsMax);
  while (!base.empty() && (base.back() == '-' || base.back() == '.')) base.remove_suffix(1);
  const auto half = [&] { return static_cast<std::uint32_t>(executor.random() * 0x1p32); };
  const std::uint32_t high = half();
  return fmt::format("{}.{:08x}{:08x}", base, high, half());
}

// Whether the same request may succeed later: rights can be given, and servers come back.
bool may_go_away(const Response& response) {
  const int status = response.status;
  return response.failure || status == 401 || status == 403 || status == 408 || status == 429 ||
         status >= 500;
}

// After so many requests that failed.
Duration pause_after(int failed) {
  Duration pause = kEventRetryMin;
  for (int i = 1; i < failed && pause < kEventRetryMax; ++i) pause *= 2;
  return std::min<Duration>(pause, kEventRetryMax);
}

}  // namespace

EventRecorder::EventRecorder(EventSource source, Transport& transport,
                             std::function<std::string()> now)
    : source_(std::move(source)), transport_(transport), now_(std::move(now)) {}

void EventRecorder::on_pod(const PodRef& pod, const PodUid& uid, const Event& event) {
  EventObject object;
  object.name_space = object.involved_namespace = pod.name_space;
  object.involved_kind = "Pod";
  object.involved_name = pod.name;
  object.involved_uid = uid.str();
  record(std::move(object), event);
}

// kubelet's own events on its node also have the namespace "default" and the name as the uid.
void EventRecorder::on_node(const NodeName& node, const Event& event) {
  EventObject object;
  object.name_space = "default";
  object.involved_kind = "Node";
  object.involved_name = object.involved_uid = node.str();
  record(std::move(object), event);
}

std::uint64_t EventRecorder::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

void EventRecorder::record(EventObject object, const Event& event) {
  object.component = source_.component;
  object.host = source_.host;
  object.time = now_();
  object.warning = event.type == Event::Type::kWarning;
  object.reason = cut_text(event.reason, kReasonMax);
  object.message = cut_text(event.message, kEventMessageMax);
  object.name = event_name_of(object.involved_name, transport_.executor());
  const Key key(object.involved_kind + "/" + object.involved_namespace + "/" + object.involved_name,
                object.involved_uid, object.reason, object.message, object.warning);
  std::optional<Request> request;
  {
    const MutexLock lock(mutex_);
    request = add(key, std::move(object));
  }
  if (request) send(key, *std::move(request));
}

std::optional<Request> EventRecorder::add(const Key& key, EventObject event) {
  const std::string time = event.time;
  if (!recorded_.contains(key)) make_room();
  Recorded& entry = recorded_[key];
  if (entry.count == 0) entry.event = std::move(event);
  ++entry.count;
  entry.last_use = ++uses_;
  if (entry.sending != 0) return std::nullopt;
  if (in_flight_ < kEventsInFlightMax) return next_request(entry, time);
  drop(entry);
  // The next response sends it.
  if (entry.written == 0) entry.due = transport_.executor().now();
  return std::nullopt;
}

// Removes the one that was recorded first: of those that are written, or else of those that wait.
void EventRecorder::make_room() {
  if (recorded_.size() < kEventsRememberedMax) return;
  recorded_.erase(std::ranges::min_element(recorded_, {}, [](const auto& one) {
    const Recorded& entry = one.second;
    return std::tuple(entry.sending != 0, entry.due.has_value(), entry.last_use);
  }));
}

void EventRecorder::drop(Recorded& entry) {
  dropped_ += entry.count - std::max(entry.dropped, entry.written);
  entry.dropped = entry.count;
}

std::optional<Request> EventRecorder::next_request(Recorded& entry, const std::string& time) {
  if (entry.written == entry.count) return std::nullopt;
  ++in_flight_;
  entry.due.reset();
  entry.sending = entry.written == 0 ? 1 : entry.count;
  if (entry.written == 0) return create_event(entry.event);
  return count_event(entry.event.name_space, entry.event.name, entry.count, time);
}

void EventRecorder::send(const Key& key, Request request) {
  transport_.send(std::move(request), callbacks_.wrap([this, key](const Response& response) {
    on_response(key, response);
  }));
}

void EventRecorder::on_response(const Key& key, const Response& response) {
  std::optional<Request> request;
  const std::string time = now_();
  {
    const MutexLock lock(mutex_);
    request = finish(key, response, time);
  }
  if (request) send(key, *std::move(request));
  send_due();
}

void EventRecorder::send_due() {
  const std::string time = now_();
  while (true) {
    std::optional<std::pair<Key, Request>> next;
    {
      const MutexLock lock(mutex_);
      next = next_due(time);
    }
    if (!next) break;
    send(next->first, std::move(next->second));
  }
  start_timer();
}

void EventRecorder::start_timer() {
  {
    const MutexLock lock(mutex_);
    const bool waits =
        std::ranges::any_of(recorded_, [](const auto& one) { return one.second.due.has_value(); });
    if (!waits || std::exchange(timer_runs_, true)) return;
  }
  transport_.executor().after(kEventRetryMin, callbacks_.wrap([this] {
    {
      const MutexLock lock(mutex_);
      timer_runs_ = false;
    }
    send_due();
  }));
}

std::optional<std::pair<EventRecorder::Key, Request>> EventRecorder::next_due(
    const std::string& time) {
  if (in_flight_ >= kEventsInFlightMax) return std::nullopt;
  const auto next = std::ranges::min_element(
      recorded_, {}, [](const auto& one) { return one.second.due.value_or(Instant::max()); });
  if (next == recorded_.end() || !next->second.due) return std::nullopt;
  if (*next->second.due > transport_.executor().now()) return std::nullopt;
  auto request = next_request(next->second, time);
  MGPU_CHECK(request, "an event that waits is not written");
  return std::pair(next->first, *std::move(request));
}

std::optional<Request> EventRecorder::finish(const Key& key, const Response& response,
                                             const std::string& time) {
  const auto found = recorded_.find(key);
  MGPU_CHECK(found != recorded_.end(), "an event with a request in flight is recorded");
  Recorded& entry = found->second;
  --in_flight_;
  const std::uint64_t sent = std::exchange(entry.sending, 0);
  if (response.ok()) {
    entry.written = sent;
    entry.failed = 0;
    return next_request(entry, time);
  }
  const bool existed = entry.written != 0;
  // The API server keeps events for an hour. After that a new object starts with the count 1.
  if (existed && response.status == 404) {
    entry.event.time = time;
    entry.event.name = event_name_of(entry.event.involved_name, transport_.executor());
    entry.count -= std::exchange(entry.written, 0);
    entry.dropped = 0;
    return next_request(entry, time);
  }
  drop(entry);
  // The count of one that is written is sent with the next equal event.
  if (existed) return std::nullopt;
  if (may_go_away(response) && ++entry.failed < kEventTriesMax) {
    entry.due = transport_.executor().now() + pause_after(entry.failed);
  } else {
    recorded_.erase(found);
  }
  return std::nullopt;
}

}  // namespace mgpu::kube
