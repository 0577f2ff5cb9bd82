#include "plugin/node/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/text.h"
#include "common/base/utc_text.h"
#include "plugin/node/limits.h"

namespace mgpu::plugin {
namespace {

constexpr std::string_view kComponent = "mgpu-device-plugin";
// Of a DNS subdomain (apimachinery util/validation), less a dot and 16 digits.
constexpr std::size_t kNameBeforeDigitsMax = 253 - 17;
// kubernetes pkg/apis/core/validation/events.go
constexpr std::size_t kReasonMax = 128;

// Unlike any other event's of this object: kubelet puts the time there.
std::string name_of(std::string_view object, Executor& executor) {
  std::string_view base = object.substr(0, kNameBeforeDigitsMax);
  while (!base.empty() && (base.back() == '-' || base.back() == '.')) base.remove_suffix(1);
  const auto half = [&] { return static_cast<std::uint32_t>(executor.random() * 0x1p32); };
  const std::uint32_t high = half();
  return fmt::format("{}.{:08x}{:08x}", base, high, half());
}

}  // namespace

EventRecorder::EventRecorder(NodeName node, kube::Transport& transport,
                             std::function<std::string()> now)
    : node_(std::move(node)),
      transport_(transport),
      now_(now ? std::move(now) : std::function<std::string()>(utc_now)) {}

void EventRecorder::on_pod(const PodRef& pod, const PodUid& uid, const Event& event) {
  kube::EventObject object;
  object.name_space = object.involved_namespace = pod.name_space;
  object.involved_kind = "Pod";
  object.involved_name = pod.name;
  object.involved_uid = uid.str();
  object.warning = event.type == Event::Type::kWarning;
  object.reason = event.reason;
  object.message = event.message;
  record(std::move(object));
}

// As kubelet's own events on its node: in "default", with the node's name for its uid.
void EventRecorder::on_node(const Event& event) {
  kube::EventObject object;
  object.name_space = "default";
  object.involved_kind = "Node";
  object.involved_name = object.involved_uid = node_.str();
  object.warning = event.type == Event::Type::kWarning;
  object.reason = event.reason;
  object.message = event.message;
  record(std::move(object));
}

std::uint64_t EventRecorder::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

EventRecorder::Key EventRecorder::key_of(const kube::EventObject& event) {
  return {event.involved_kind + "/" + event.involved_namespace + "/" + event.involved_name,
          event.involved_uid, event.reason, event.message, event.warning ? "Warning" : "Normal"};
}

void EventRecorder::record(kube::EventObject event) {
  event.component = kComponent;
  event.host = node_.str();
  event.time = now_();
  event.reason = cut_text(event.reason, kReasonMax);
  event.message = cut_text(event.message, kEventMessageMax);
  event.name = name_of(event.involved_name, transport_.executor());
  const Key key = key_of(event);
  std::optional<kube::Request> request;
  {
    const MutexLock lock(mutex_);
    request = begin(key, std::move(event));
  }
  if (request) send(key, *std::move(request));
}

std::optional<kube::Request> EventRecorder::begin(const Key& key, kube::EventObject event) {
  const std::string time = event.time;
  const auto found = remembered_.find(key);
  const bool waits = found != remembered_.end() && found->second.sending != 0;
  if (!waits && in_flight_ >= kEventsInFlightMax) {
    ++dropped_;
    return std::nullopt;
  }
  if (found == remembered_.end()) make_room();
  Remembered& entry = remembered_[key];
  if (entry.count == 0) entry.event = std::move(event);
  ++entry.count;
  entry.last_use = ++uses_;
  return waits ? std::nullopt : begin_next(entry, time);
}

// What the server does not know yet, in one request.
std::optional<kube::Request> EventRecorder::begin_next(Remembered& entry, const std::string& time) {
  if (entry.written == entry.count) return std::nullopt;
  ++in_flight_;
  entry.sending = entry.written == 0 ? 1 : entry.count;
  if (entry.written == 0) return kube::create_event(entry.event);
  return kube::count_event(entry.event.name_space, entry.event.name, entry.count, time);
}

void EventRecorder::make_room() {
  if (remembered_.size() < kEventsRememberedMax) return;
  const auto oldest = std::ranges::min_element(remembered_, {}, [](const auto& entry) {
    return std::pair(entry.second.sending != 0, entry.second.last_use);
  });
  remembered_.erase(oldest);
}

void EventRecorder::send(const Key& key, kube::Request request) {
  transport_.send(std::move(request), callbacks_.wrap([this, key](const kube::Response& answer) {
    on_answer(key, answer);
  }));
}

void EventRecorder::on_answer(const Key& key, const kube::Response& answer) {
  std::optional<kube::Request> request;
  const std::string time = now_();
  {
    const MutexLock lock(mutex_);
    --in_flight_;
    request = after(key, answer, time);
  }
  if (request) send(key, *std::move(request));
}

std::optional<kube::Request> EventRecorder::after(const Key& key, const kube::Response& answer,
                                                  const std::string& time) {
  const auto found = remembered_.find(key);
  MGPU_CHECK(found != remembered_.end(), "an event under way is remembered");
  Remembered& entry = found->second;
  const std::uint64_t sent = std::exchange(entry.sending, 0);
  if (answer.ok()) {
    entry.written = sent;
    return begin_next(entry, time);
  }
  const bool existed = entry.written != 0;
  // The API server keeps events for an hour: the one that was counted is gone, and begins anew.
  if (existed && answer.status == 404) {
    entry.event.time = time;
    entry.event.name = name_of(entry.event.involved_name, transport_.executor());
    entry.count -= std::exchange(entry.written, 0);
    return begin_next(entry, time);
  }
  dropped_ += existed ? sent - entry.written : entry.count;
  if (!existed) remembered_.erase(found);
  return std::nullopt;
}

}  // namespace mgpu::plugin
