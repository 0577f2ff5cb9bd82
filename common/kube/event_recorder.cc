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
  const auto found = recorded_.find(key);
  const bool sending = found != recorded_.end() && found->second.sending != 0;
  if (!sending && in_flight_ >= kEventsInFlightMax) {
    ++dropped_;
    return std::nullopt;
  }
  if (found == recorded_.end() && recorded_.size() >= kEventsRememberedMax) {
    recorded_.erase(std::ranges::min_element(recorded_, {}, [](const auto& entry) {
      return std::pair(entry.second.sending != 0, entry.second.last_use);
    }));
  }
  Recorded& entry = recorded_[key];
  if (entry.count == 0) entry.event = std::move(event);
  ++entry.count;
  entry.last_use = ++uses_;
  return sending ? std::nullopt : next_request(entry, time);
}

std::optional<Request> EventRecorder::next_request(Recorded& entry, const std::string& time) {
  if (entry.written == entry.count) return std::nullopt;
  ++in_flight_;
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
    return next_request(entry, time);
  }
  const bool existed = entry.written != 0;
  // The API server keeps events for an hour. After that a new object starts with the count 1.
  if (existed && response.status == 404) {
    entry.event.time = time;
    entry.event.name = event_name_of(entry.event.involved_name, transport_.executor());
    entry.count -= std::exchange(entry.written, 0);
    return next_request(entry, time);
  }
  dropped_ += existed ? sent - entry.written : entry.count;
  if (!existed) recorded_.erase(found);
  return std::nullopt;
}

}  // namespace mgpu::kube
