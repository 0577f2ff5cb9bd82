// The objects in test/golden/apimachinery-0.36.3, which Kubernetes' own encoders have written in
// both encodings.
#include "common/kube/objects/object_protobuf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/kube/client.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/transport.h"
#include "common/kube/watch/event_buffer.h"
#include "common/kube/watch/line_buffer.h"

namespace mgpu::kube {
namespace {

using ::testing::HasSubstr;

std::string golden(const std::string& name) {
  std::ifstream file(MGPU_SOURCE_DIR "/test/golden/apimachinery-0.36.3/" + name, std::ios::binary);
  EXPECT_TRUE(file) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> events_in_json() {
  LineBuffer buffer;
  buffer.append(golden("watch.json"));
  const std::string lines = buffer.take(true);
  std::vector<std::string> events;
  for (std::size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    events.push_back(lines.substr(at, lines.find('\n', at) - at));
  }
  return events;
}

std::vector<std::string> events_in_protobuf() {
  EventBuffer buffer;
  buffer.append(golden("watch.pb"));
  return buffer.take();
}

std::string text_of(const Container& one) {
  return fmt::format("{} limits {} requests {} always {} port {}", one.name, one.limits,
                     one.requests, one.restart_always, one.host_port);
}

std::string text_of(const std::optional<GivenResources>& given) {
  if (!given) return "none";
  return fmt::format("requests {} allocated {}", given->requests, given->allocated);
}

std::string text_of(const ContainerStatus& one) {
  return fmt::format("{} {} {} given {}", one.name, one.id, one.running, text_of(one.given));
}

template <class T>
std::string text_of(const std::vector<T>& all) {
  std::string text;
  for (const T& one : all) text += "\n  " + text_of(one);
  return text;
}

std::string text_of(const Metadata& metadata) {
  return fmt::format(
      "{}/{} {} {} annotations {} labels {} deleted {} grace {} controller {}", metadata.name_space,
      metadata.name, metadata.uid, metadata.resource_version, metadata.annotations, metadata.labels,
      metadata.being_deleted, metadata.deletion_grace_seconds.value_or(-1),
      metadata.controller ? metadata.controller->kind + metadata.controller->name : "none");
}

// Every member but the number of bytes.
std::string text_of(const Pod& pod) {
  return fmt::format(
      "{}\ninit{}\ncontainers{}\noverhead {} node {} scheduler {} nominated {} priority {} "
      "constrained {} gated {} anti-affinity {} phase {} start {} requests {} given {} infeasible "
      "{}\nstatuses{}",
      text_of(pod.metadata), text_of(pod.init_containers), text_of(pod.containers), pod.overhead,
      pod.node_name, pod.scheduler_name, pod.nominated_node, pod.priority, pod.constrained,
      pod.gated, pod.anti_affinity, pod.phase, pod.start_time, pod.requests, text_of(pod.given),
      pod.resize_infeasible, text_of(pod.container_statuses));
}

TEST(ObjectProtobuf, EventsHaveTheSamePodsAsInJson) {
  const auto json = events_in_json();
  const auto protobuf = events_in_protobuf();
  ASSERT_EQ(protobuf.size(), json.size());
  ASSERT_GT(protobuf.size(), 20);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto expected = read_watch_line(json[i]);
    const auto read = read_pod_event_protobuf(protobuf[i]);
    ASSERT_TRUE(expected && read) << json[i];
    EXPECT_EQ(read->kind, expected->kind);
    EXPECT_EQ(read->resource_version, expected->resource_version);
    EXPECT_EQ(read->status.code, expected->status.code);
    EXPECT_EQ(read->status.message, expected->status.message);
    if (read->kind == WatchLine::Kind::kError) continue;
    EXPECT_EQ(name_in_protobuf(read->object), name_of_object(expected->object));
    const auto pod = read_pod_protobuf(read->object);
    ASSERT_TRUE(pod) << pod.error().message;
    EXPECT_EQ(text_of(*pod), text_of(*read_pod(expected->object)));
    EXPECT_EQ(pod->json_bytes, read->object.size());
  }
}

TEST(ObjectProtobuf, ReadsTheGroupOfAPod) {
  constexpr std::string_view kSpecWithGroup("\x12\x06\xDA\x02\x03\x0A\x01g");
  EXPECT_EQ(read_pod_protobuf(kSpecWithGroup)->pod_group, "g");
}

TEST(ObjectProtobuf, ReadsEveryFieldThatMgpuUses) {
  const auto pod = read_pod_protobuf(read_pod_event_protobuf(events_in_protobuf().front())->object);
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(to_string(pod->ref()), "ml/everything");
  EXPECT_EQ(pod->metadata.annotations.at("bad"),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(pod->metadata.controller->kind, "Job");
  EXPECT_EQ(pod->metadata.deletion_grace_seconds, 30);
  EXPECT_TRUE(pod->init_containers.front().restart_always);
  EXPECT_TRUE(pod->containers.at(1).host_port);
  EXPECT_EQ(pod->containers.front().limits.at("vke.volcengine.com/mgpu-core"), "30");
  EXPECT_EQ(pod->overhead.at("cpu"), "250m");
  EXPECT_EQ(pod->priority, -5);
  EXPECT_EQ(pod->start_time, "2026-01-02T03:04:06Z");
  EXPECT_EQ(pod->nominated_node, "n2");
  EXPECT_TRUE(pod->container_statuses.front().running);
}

TEST(ObjectProtobuf, AListHasTheSamePodsAsInJson) {
  const auto expected = read_list_page(golden("list.json"));
  const auto page = read_pod_list_protobuf(golden("list.pb"));
  ASSERT_TRUE(expected && page) << page.error().message;
  EXPECT_EQ(page->resource_version, "12");
  EXPECT_EQ(page->continue_token, "c");
  ASSERT_EQ(page->items.size(), expected->items.size());
  for (std::size_t i = 0; i < page->items.size(); ++i) {
    EXPECT_EQ(text_of(*read_pod_protobuf(page->items[i])), text_of(*read_pod(expected->items[i])));
  }
}

TEST(ObjectProtobuf, ReadsAStatus) {
  const Status status = read_status_protobuf(golden("status.pb"));
  const Status expected = read_status(golden("status.json"));
  EXPECT_EQ(status.kind, expected.kind);
  EXPECT_EQ(status.code, 410);
  EXPECT_EQ(status.reason, "Expired");
  EXPECT_EQ(status.message, expected.message);
  const Response answer{.status = 410,
                        .body = golden("status.pb"),
                        .retry_after = {},
                        .failure = {},
                        .encoding = Encoding::kProtobuf};
  EXPECT_EQ(answer_text(answer), "HTTP 410 Expired: too old resource version: 1 (77)");
  EXPECT_EQ(api_error(answer).kind, ApiError::Kind::kRefused);
}

TEST(ObjectProtobuf, RefusesAnObjectOfAnotherKind) {
  std::string event = events_in_protobuf().front();
  const std::size_t kind = event.find("Pod");
  const auto line = read_pod_event_protobuf(event.replace(kind, 3, "Pad"));
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().message, "kind must be Pod, is \"Pad\"");
  const auto page = read_pod_list_protobuf(golden("status.pb"));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().message, "kind must be PodList, is \"Status\"");
  EXPECT_EQ(read_status_protobuf(golden("list.pb")).kind, "");
}

// What is left can be a message, too: fields of a message are optional.
TEST(ObjectProtobuf, ReadsNothingBeyondTheEndOfATextThatIsCut) {
  const std::string list = golden("list.pb");
  const std::string event = events_in_protobuf().front();
  for (std::size_t size = 0; size < list.size(); ++size) {
    (void)read_pod_list_protobuf(list.substr(0, size));
    (void)read_pod_protobuf(list.substr(0, size));
  }
  for (std::size_t size = 0; size < event.size(); ++size) {
    (void)read_pod_event_protobuf(event.substr(0, size));
  }
  const auto line = read_pod_event_protobuf(event.substr(0, event.size() - 1));
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().message, HasSubstr("not an event of a watch"));
}

TEST(ObjectProtobuf, AListNeedsAVersion) {
  const auto page = read_pod_list_protobuf(std::string("k8s\0\x0a\x0b\x0a\x00\x12\x07PodList", 17));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().message, "metadata.resourceVersion of the list is missing");
}

TEST(ObjectProtobuf, ABindingIsReadAsItWasWritten) {
  const Binding binding{
      {"ml", "train"}, PodUid("u-1"), NodeName("n1"), {{"d/a", "0,2"}, {"d/b", ""}}, "42"};
  const auto read = read_binding_protobuf(binding_protobuf(binding));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_string(read->pod), "ml/train");
  EXPECT_EQ(read->uid, binding.uid);
  EXPECT_EQ(read->node, binding.node);
  EXPECT_EQ(read->annotations, binding.annotations);
  EXPECT_EQ(read->resource_version, "42");
}

}  // namespace
}  // namespace mgpu::kube
