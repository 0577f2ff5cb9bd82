#include "plugin/node/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/utc_text.h"
#include "common/check.h"
#include "common/kube/request.h"
#include "common/text.h"
#include "plugin/limits.h"

namespace mgpu::node {
namespace {

constexpr std::string_view kComponent = "mgpu-device-plugin";
// Of a DNS subdomain (apimachinery util/validation), less a dot and 16 digits.
constexpr std::size_t kNameBeforeDigitsMax = 253 - 17;
// kubernetes pkg/apis/core/validation/events.go
constexpr std::size_t kReasonMax = 128;

// What events are counted by.
using Key = std::tuple<std::string, std::string, std::string, std::string, std::string>;

Key key_of(const kube::EventObject& event) {
  return {event.involved_kind + "/" + event.involved_space + "/" + event.involved_name,
          event.involved_uid, event.reason, event.message, event.warning ? "Warning" : "Normal"};
}

// Unlike any other event's of this object: kubelet puts the time there.
std::string name_of(std::string_view object, Executor& executor) {
  std::string_view base = object.substr(0, kNameBeforeDigitsMax);
  while (!base.empty() && (base.back() == '-' || base.back() == '.')) base.remove_suffix(1);
  const auto half = [&] { return static_cast<std::uint32_t>(executor.random() * 0x1p32); };
  const std::uint32_t high = half();
  return fmt::format("{}.{:08x}{:08x}", base, high, half());
}

// One event as it stands at the API server, or is on its way there.
struct Remembered {
  kube::EventObject event;
  std::uint64_t count = 0;    // occurrences
  std::uint64_t written = 0;  // of them, what the server knows
  std::uint64_t sending = 0;  // the same once the request under way is done; 0: there is none
  std::uint64_t last_use = 0;
};

}  // namespace

struct EventRecorder::State : std::enable_shared_from_this<State> {
  State(NodeName its_node, kube::Transport& its_transport, std::function<std::string()> its_now)
      : node(std::move(its_node)),
        transport(its_transport),
        now(its_now ? std::move(its_now) : std::function<std::string()>(utc_now)) {}

  void record(kube::EventObject event);
  void send(const Key& key, kube::Request request);
  void on_answer(const Key& key, const kube::Response& answer);

  // The mutex is held.
  std::optional<kube::Request> begin(const Key& key, kube::EventObject event);
  std::optional<kube::Request> begin_next(Remembered& entry, const std::string& time);
  std::optional<kube::Request> after(const Key& key, const kube::Response& answer,
                                     const std::string& time);
  void make_room();

  const NodeName node;
  kube::Transport& transport;
  const std::function<std::string()> now;

  std::mutex mutex;
  std::map<Key, Remembered> remembered;
  std::size_t in_flight = 0;
  std::uint64_t uses = 0;
  std::uint64_t dropped = 0;
};

void EventRecorder::State::record(kube::EventObject event) {
  event.component = kComponent;
  event.host = node.str();
  event.time = now();
  event.reason = cut_text(event.reason, kReasonMax);
  event.message = cut_text(event.message, limits::kEventMessageMax);
  event.name = name_of(event.involved_name, transport.executor());
  const Key key = key_of(event);
  std::optional<kube::Request> request;
  {
    const std::lock_guard lock(mutex);
    request = begin(key, std::move(event));
  }
  if (request) send(key, *std::move(request));
}

std::optional<kube::Request> EventRecorder::State::begin(const Key& key, kube::EventObject event) {
  const std::string time = event.time;
  const auto found = remembered.find(key);
  const bool waits = found != remembered.end() && found->second.sending != 0;
  if (!waits && in_flight >= limits::kEventsInFlightMax) {
    ++dropped;
    return std::nullopt;
  }
  if (found == remembered.end()) make_room();
  Remembered& entry = remembered[key];
  if (entry.count == 0) entry.event = std::move(event);
  ++entry.count;
  entry.last_use = ++uses;
  return waits ? std::nullopt : begin_next(entry, time);
}

// What the server does not know yet, in one request.
std::optional<kube::Request> EventRecorder::State::begin_next(Remembered& entry,
                                                              const std::string& time) {
  if (entry.written == entry.count) return std::nullopt;
  ++in_flight;
  entry.sending = entry.written == 0 ? 1 : entry.count;
  if (entry.written == 0) return kube::create_event(entry.event);
  return kube::count_event(entry.event.space, entry.event.name, entry.count, time);
}

void EventRecorder::State::make_room() {
  if (remembered.size() < limits::kEventsRememberedMax) return;
  const auto oldest = std::ranges::min_element(remembered, {}, [](const auto& entry) {
    return std::pair(entry.second.sending != 0, entry.second.last_use);
  });
  remembered.erase(oldest);
}

void EventRecorder::State::send(const Key& key, kube::Request request) {
  transport.send(std::move(request), [weak = weak_from_this(), key](const kube::Response& answer) {
    if (const auto self = weak.lock()) self->on_answer(key, answer);
  });
}

void EventRecorder::State::on_answer(const Key& key, const kube::Response& answer) {
  std::optional<kube::Request> request;
  const std::string time = now();
  {
    const std::lock_guard lock(mutex);
    --in_flight;
    request = after(key, answer, time);
  }
  if (request) send(key, *std::move(request));
}

std::optional<kube::Request> EventRecorder::State::after(const Key& key,
                                                         const kube::Response& answer,
                                                         const std::string& time) {
  const auto found = remembered.find(key);
  MGPU_CHECK(found != remembered.end(), "an event under way is remembered");
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
    entry.event.name = name_of(entry.event.involved_name, transport.executor());
    entry.count -= std::exchange(entry.written, 0);
    return begin_next(entry, time);
  }
  dropped += existed ? sent - entry.written : entry.count;
  if (!existed) remembered.erase(found);
  return std::nullopt;
}

EventRecorder::EventRecorder(NodeName node, kube::Transport& transport,
                             std::function<std::string()> now)
    : state_(std::make_shared<State>(std::move(node), transport, std::move(now))) {}

EventRecorder::~EventRecorder() = default;

void EventRecorder::on_pod(const PodRef& pod, const PodUid& uid, const Event& event) {
  kube::EventObject object;
  object.space = object.involved_space = pod.space;
  object.involved_kind = "Pod";
  object.involved_name = pod.name;
  object.involved_uid = uid.str();
  object.warning = event.type == Event::Type::kWarning;
  object.reason = event.reason;
  object.message = event.message;
  state_->record(std::move(object));
}

// As kubelet's own events on its node: in "default", with the node's name for its uid.
void EventRecorder::on_node(const Event& event) {
  kube::EventObject object;
  object.space = "default";
  object.involved_kind = "Node";
  object.involved_name = object.involved_uid = state_->node.str();
  object.warning = event.type == Event::Type::kWarning;
  object.reason = event.reason;
  object.message = event.message;
  state_->record(std::move(object));
}

std::uint64_t EventRecorder::dropped() const {
  const std::lock_guard lock(state_->mutex);
  return state_->dropped;
}

}  // namespace mgpu::node
