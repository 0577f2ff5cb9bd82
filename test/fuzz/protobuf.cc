// A watch in protobuf, in any parts, and each event, list, pod, Status and binding that it has.
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"
#include "common/kube/watch/event_buffer.h"
#include "common/kube/watch/reflector.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

// Short, so that the inputs of a fuzzer have events over it.
constexpr std::size_t kEventMax = 512;

std::vector<std::string> events_of(const std::vector<std::string_view>& parts) {
  kube::EventBuffer buffer(kEventMax);
  std::vector<std::string> events;
  for (const std::string_view part : parts) {
    buffer.append(part);
    for (std::string& event : buffer.take()) {
      expect(!event.empty() && event.size() <= kEventMax, "an event has a length up to the limit");
      events.push_back(std::move(event));
    }
  }
  return events;
}

// Everything that is shown or logged of a pod is UTF-8.
void expect_texts(const kube::Pod& pod) {
  std::string texts = pod.metadata.name + pod.metadata.name_space + pod.metadata.uid +
                      pod.node_name + pod.phase + pod.scheduler_name + pod.nominated_node;
  for (const auto& [key, value] : pod.metadata.annotations) texts += key + value;
  for (const auto& [key, value] : pod.metadata.labels) texts += key + value;
  for (const kube::Container& container : pod.containers) {
    texts += container.name;
    for (const auto& [resource, amount] : container.limits) texts += resource + amount;
  }
  for (std::size_t at = 0; at < texts.size();) {
    const std::size_t length = utf8_sequence_at(texts, at);
    expect(length > 0, "texts are UTF-8");
    at += length;
  }
}

void read_pod(const std::string& message) {
  const auto pod = kube::read_pod_protobuf(message);
  if (pod) return expect_texts(*pod);
  expect_sentence(pod.error().message);
  expect_sentence(kube::unreadable_object(
      {kube::WatchEvent::Kind::kApply, message, kube::Encoding::kProtobuf}, pod.error()));
}

void read_list(std::string_view body) {
  const auto page = kube::read_pod_list_protobuf(body);
  if (!page) return expect_sentence(page.error().message);
  for (const std::string& item : page->items) read_pod(item);
}

void read_binding(std::string_view text) {
  const auto binding = kube::read_binding_protobuf(text);
  if (!binding) return expect_sentence(binding.error().message);
  const auto again = kube::read_binding_protobuf(kube::binding_protobuf(*binding));
  expect(again && again->pod.name == binding->pod.name && again->uid == binding->uid &&
             again->node == binding->node && again->annotations == binding->annotations &&
             again->resource_version == binding->resource_version,
         "a binding is read as it was written");
}

}  // namespace

MGPU_FUZZER(protobuf) {
  const auto events = events_of({input});
  expect(events == events_of(in_parts(input)), "events do not depend on the parts of a stream");
  read_pod(std::string(input));
  read_list(input);
  read_binding(input);
  expect_sentence(kube::answer_text({.status = 500,
                                     .body = std::string(input),
                                     .retry_after = {},
                                     .failure = {},
                                     .encoding = kube::Encoding::kProtobuf}));
  for (const std::string& text : events) {
    const auto event = kube::read_pod_event_protobuf(text);
    if (!event) {
      expect_sentence(event.error().message);
      continue;
    }
    read_pod(event->object);
  }
}

}  // namespace mgpu::fuzz
