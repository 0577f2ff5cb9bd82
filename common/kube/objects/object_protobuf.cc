#include "common/kube/objects/object_protobuf.h"

#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <kubernetes.pb.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/base/utc_text.h"

namespace mgpu::kube {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr char kEventBegin = '\n';

std::string valid_text(const std::string& text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<signed char>(c) >= 0; }))
    return text;
  std::string valid;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_at(text, at);
    valid +=
        length == 0 ? std::string_view("\xEF\xBF\xBD") : std::string_view(text).substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return valid;
}

template <class Message>
bool parse(Message& message, std::string_view text) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  return text.size() <= kMost && message.ParseFromArray(text.data(), static_cast<int>(text.size()));
}

Error malformed(std::string_view what) {
  return error(fmt::format("the text is not {} in Kubernetes' protobuf encoding", what));
}

// The message of this kind, on the arena.
template <class Message>
Result<const Message*> read_message(google::protobuf::Arena& arena, std::string_view text,
                                    std::string_view kind) {
  auto& unknown = *google::protobuf::Arena::CreateMessage<proto::Unknown>(&arena);
  if (!is_protobuf(text) || !parse(unknown, text.substr(kMagic.size())))
    return malformed("an object");
  const std::string& found = unknown.typemeta().kind();
  if (!kind.empty() && found != kind) {
    return error(fmt::format("kind must be {}, is {}", kind, in_quotes(found)));
  }
  auto* const message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  if (!parse(*message, unknown.raw())) return malformed(fmt::format("a {}", found));
  return message;
}

std::string enveloped(std::string_view kind, std::string raw) {
  proto::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind(std::string(kind));
  unknown.set_raw(std::move(raw));
  std::string text(kMagic);
  unknown.AppendToString(&text);
  return text;
}

template <class Map>
StringMap texts_of(const Map& from) {
  StringMap to;
  for (const auto& [key, value] : from) to.insert_or_assign(valid_text(key), valid_text(value));
  return to;
}

template <class Map>
StringMap quantities_of(const Map& from) {
  StringMap to;
  for (const auto& [key, value] : from) {
    to.insert_or_assign(valid_text(key), valid_text(value.string()));
  }
  return to;
}

// The zero time of Go is a message without fields, and null in JSON.
bool is_time(const proto::Time& time) {
  return time.has_seconds();
}

Metadata metadata_of(const proto::ObjectMeta& from) {
  Metadata metadata;
  metadata.name = valid_text(from.name());
  metadata.name_space = valid_text(from.namespace_());
  metadata.uid = valid_text(from.uid());
  metadata.resource_version = valid_text(from.resourceversion());
  metadata.annotations = texts_of(from.annotations());
  metadata.labels = texts_of(from.labels());
  metadata.being_deleted = is_time(from.deletiontimestamp());
  const std::int64_t grace = from.deletiongraceperiodseconds();
  if (from.has_deletiongraceperiodseconds() && std::in_range<std::int32_t>(grace)) {
    metadata.deletion_grace_seconds = static_cast<std::int32_t>(grace);
  }
  for (const proto::OwnerReference& owner : from.ownerreferences()) {
    if (!owner.controller() || metadata.controller) continue;
    metadata.controller = OwnerRef{valid_text(owner.kind()), valid_text(owner.name())};
  }
  return metadata;
}

template <class Messages, class Read>
auto list_of(const Messages& from, const Read& read) {
  std::vector<std::invoke_result_t<Read, decltype(*from.begin())>> all;
  all.reserve(static_cast<std::size_t>(from.size()));
  for (const auto& message : from) all.push_back(read(message));
  return all;
}

Container container_of(const proto::Container& from) {
  Container container;
  container.name = valid_text(from.name());
  container.limits = quantities_of(from.resources().limits());
  container.requests = quantities_of(from.resources().requests());
  container.restart_always = from.restartpolicy() == "Always";
  for (const proto::ContainerPort& port : from.ports()) {
    container.host_port = container.host_port || port.hostport() != 0;
  }
  return container;
}

// Of the status of a container or a pod.
template <class Status>
std::optional<GivenResources> given_of(const Status& from) {
  if (!from.has_resources()) return std::nullopt;
  return GivenResources{.requests = quantities_of(from.resources().requests()),
                        .allocated = quantities_of(from.allocatedresources())};
}

ContainerStatus container_status_of(const proto::ContainerStatus& from) {
  return {.name = valid_text(from.name()),
          .id = valid_text(from.containerid()),
          .running = from.state().has_running(),
          .given = given_of(from)};
}

bool is_resize_infeasible(const proto::PodStatus& status) {
  const auto pending = std::ranges::find(status.conditions(), kResizePending,
                                         [](const auto& one) { return one.type(); });
  return pending != status.conditions().end() && pending->reason() == kResizeInfeasible;
}

bool has_shared_volume(const proto::PodSpec& spec) {
  for (const proto::Volume& volume : spec.volumes()) {
    if (!volume.volumesource().unknown_fields().empty()) return true;
  }
  return false;
}

bool requires_pods(const proto::PodAffinity& affinity) {
  return affinity.requiredduringschedulingignoredduringexecution_size() > 0;
}

void read_spec(const proto::PodSpec& spec, Pod& pod) {
  pod.init_containers = list_of(spec.initcontainers(), container_of);
  pod.containers = list_of(spec.containers(), container_of);
  pod.overhead = quantities_of(spec.overhead());
  pod.requests = quantities_of(spec.resources().requests());
  pod.node_name = valid_text(spec.nodename());
  pod.scheduler_name = valid_text(spec.schedulername());
  pod.priority = spec.priority();
  pod.gated = spec.schedulinggates_size() > 0;
  pod.anti_affinity = requires_pods(spec.affinity().podantiaffinity());
  pod.constrained = pod.anti_affinity || requires_pods(spec.affinity().podaffinity()) ||
                    spec.topologyspreadconstraints_size() > 0 || spec.resourceclaims_size() > 0 ||
                    has_shared_volume(spec);
}

// Empty where the years of a metav1.Time, 0 to 9999, do not have it.
std::string time_text(const proto::Time& time) {
  constexpr std::int64_t kFirst = -62'167'219'200;
  constexpr std::int64_t kLast = 253'402'300'799;
  if (time.seconds() < kFirst || time.seconds() > kLast) return {};
  return utc_text(std::chrono::sys_seconds(std::chrono::seconds(time.seconds())));
}

void read_status(const proto::PodStatus& status, Pod& pod) {
  pod.phase = valid_text(status.phase());
  if (is_time(status.starttime())) pod.start_time = time_text(status.starttime());
  pod.nominated_node = valid_text(status.nominatednodename());
  pod.given = given_of(status);
  pod.resize_infeasible = is_resize_infeasible(status);
  pod.container_statuses = list_of(status.initcontainerstatuses(), container_status_of);
  for (const proto::ContainerStatus& one : status.containerstatuses()) {
    pod.container_statuses.push_back(container_status_of(one));
  }
}

// The resourceVersion of the object, whatever its kind.
std::string version_in(std::string_view text) {
  google::protobuf::Arena arena;
  const auto object = read_message<proto::Object>(arena, text, "");
  return object ? valid_text((*object)->metadata().resourceversion()) : "";
}

}  // namespace

bool is_protobuf(std::string_view text) {
  return text.starts_with(kMagic);
}

bool is_protobuf_event(std::string_view text) {
  return text.starts_with(kEventBegin);
}

Result<Pod> read_pod_protobuf(std::string_view text) {
  google::protobuf::Arena arena;
  const auto read = read_message<proto::Pod>(arena, text, "Pod");
  if (!read) return read.error();
  const proto::Pod& message = **read;
  Pod pod;
  pod.json_bytes = text.size();
  pod.metadata = metadata_of(message.metadata());
  read_spec(message.spec(), pod);
  read_status(message.status(), pod);
  return pod;
}

Result<ListPage> read_list_page_protobuf(std::string_view text) {
  google::protobuf::Arena arena;
  const auto read = read_message<proto::List>(arena, text, "PodList");
  if (!read) return read.error();
  const proto::List& message = **read;
  ListPage page;
  page.resource_version = valid_text(message.metadata().resourceversion());
  page.continue_token = valid_text(message.metadata().continue_());
  if (page.resource_version.empty()) {
    return error("metadata.resourceVersion of the list is missing");
  }
  page.items =
      list_of(message.items(), [](const std::string& item) { return enveloped("Pod", item); });
  return page;
}

Result<WatchLine> read_watch_event_protobuf(std::string_view text) {
  google::protobuf::Arena arena;
  auto& event = *google::protobuf::Arena::CreateMessage<proto::WatchEvent>(&arena);
  if (!parse(event, text)) return malformed("an event of a watch");
  const auto kind = kind_of_event(event.type());
  if (!kind) return kind.error();
  WatchLine line;
  line.kind = *kind;
  line.object = event.object().raw();
  if (!is_protobuf(line.object)) return malformed("an object");
  line.resource_version = version_in(line.object);
  return line;
}

Status read_status_protobuf(std::string_view text) {
  google::protobuf::Arena arena;
  const auto read = read_message<proto::Status>(arena, text, "Status");
  if (!read) return {};
  return {.kind = "Status",
          .code = (*read)->code(),
          .reason = valid_text((*read)->reason()),
          .message = valid_text((*read)->message())};
}

std::string name_in_protobuf(std::string_view text) {
  google::protobuf::Arena arena;
  const auto object = read_message<proto::Object>(arena, text, "");
  if (!object) return {};
  const std::string& name = (*object)->metadata().name();
  const std::string& name_space = (*object)->metadata().namespace_();
  return json_escaped(name.empty() || name_space.empty() ? name : name_space + "/" + name);
}

std::string binding_protobuf(const Binding& binding) {
  proto::Binding message;
  proto::ObjectMeta& metadata = *message.mutable_metadata();
  metadata.set_name(binding.pod.name);
  metadata.set_namespace_(binding.pod.name_space);
  metadata.set_uid(binding.uid.str());
  if (!binding.resource_version.empty()) metadata.set_resourceversion(binding.resource_version);
  for (const auto& [key, value] : binding.annotations) {
    (*metadata.mutable_annotations())[key] = value;
  }
  message.mutable_target()->set_kind("Node");
  message.mutable_target()->set_apiversion("v1");
  message.mutable_target()->set_name(binding.node.str());
  return enveloped("Binding", message.SerializeAsString());
}

Result<Binding> read_binding_protobuf(std::string_view text) {
  google::protobuf::Arena arena;
  const auto read = read_message<proto::Binding>(arena, text, "Binding");
  if (!read) return read.error();
  const Metadata metadata = metadata_of((*read)->metadata());
  return Binding{.pod = {metadata.name_space, metadata.name},
                 .uid = PodUid(metadata.uid),
                 .node = NodeName(valid_text((*read)->target().name())),
                 .annotations = {metadata.annotations.begin(), metadata.annotations.end()},
                 .resource_version = metadata.resource_version};
}

}  // namespace mgpu::kube
