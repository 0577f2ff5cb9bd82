#include "common/kube/objects/object_protobuf.h"

#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/wire_format_lite.h>
#include <kubernetes.pb.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/text.h"
#include "common/base/utc_text.h"

namespace mgpu::kube {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);

template <class Message>
bool parse(Message& message, std::string_view text) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  return text.size() <= kMost && message.ParseFromArray(text.data(), static_cast<int>(text.size()));
}

Error malformed(std::string_view what) {
  return error(fmt::format("the text is not {} in Kubernetes' protobuf encoding", what));
}

// --- what is around an object, which is read in place --------------------------------------------

using Path = std::initializer_list<int>;
// Numbers of fields in Kubernetes' generated.proto, of metav1.WatchEvent with its RawExtension,
// runtime.Unknown with its TypeMeta, any list with its ListMeta, and any object with its
// ObjectMeta.
constexpr int kEventType = 1;
constexpr Path kEventObject = {2, 1};
constexpr Path kUnknownKind = {1, 2};
constexpr Path kUnknownRaw = {2};
constexpr Path kListVersion = {1, 2};
constexpr Path kListContinue = {1, 3};
constexpr int kListItems = 2;
constexpr Path kObjectName = {1, 1};
constexpr Path kObjectNamespace = {1, 3};
constexpr Path kObjectVersion = {1, 6};

// Visits the texts, bytes and messages in a message. False: it is no message.
bool visit_fields(std::string_view message,
                  const std::function<void(int number, std::string_view bytes)>& visit) {
  using Wire = google::protobuf::internal::WireFormatLite;
  if (message.size() > std::numeric_limits<int>::max()) return false;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    if (Wire::GetTagWireType(tag) != Wire::WIRETYPE_LENGTH_DELIMITED) {
      if (!Wire::SkipField(&in, tag)) return false;
      continue;
    }
    int length = 0;
    if (!in.ReadVarintSizeAsInt(&length)) return false;
    const auto at = static_cast<std::size_t>(in.CurrentPosition());
    if (!in.Skip(length)) return false;
    visit(Wire::GetTagFieldNumber(tag), message.substr(at, static_cast<std::size_t>(length)));
  }
  return in.ConsumedEntireMessage();
}

// The field at a path of field numbers. None: there is no message, or it has no such field.
std::optional<std::string_view> field(std::string_view message, Path path) {
  for (const int wanted : path) {
    std::optional<std::string_view> found;
    const bool read = visit_fields(message, [&](int number, std::string_view bytes) {
      if (number == wanted) found = bytes;
    });
    if (!read || !found) return std::nullopt;
    message = *found;
  }
  return message;
}

std::string text_at(std::string_view message, Path path) {
  return valid_text(field(message, path).value_or(""));
}

// The message in a text that begins with "k8s".
Result<std::string_view> message_of(std::string_view text, std::string_view kind) {
  const auto unknown = text.starts_with(kMagic) ? text.substr(kMagic.size()) : std::string_view();
  const auto found = field(unknown, kUnknownKind);
  if (!found) return malformed("an object");
  if (*found == kind) return field(unknown, kUnknownRaw).value_or("");
  return error(fmt::format("kind must be {}, is {}", kind, in_quotes(*found)));
}

// The same, decoded on the arena.
template <class Message>
Result<const Message*> read_message(google::protobuf::Arena& arena, std::string_view text,
                                    std::string_view kind) {
  const auto raw = message_of(text, kind);
  if (!raw) return raw.error();
  auto* const message = google::protobuf::Arena::CreateMessage<Message>(&arena);
  if (!parse(*message, *raw)) return malformed(fmt::format("a {}", kind));
  return message;
}

// --- objects -------------------------------------------------------------------------------------

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

// Reads the status of a container or a pod.
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
  pod.pod_group = valid_text(spec.schedulinggroup().podgroupname());
  pod.affinity = requires_pods(spec.affinity().podaffinity());
  pod.anti_affinity = requires_pods(spec.affinity().podantiaffinity());
  pod.constrained = pod.affinity || pod.anti_affinity ||
                    spec.topologyspreadconstraints_size() > 0 || spec.resourceclaims_size() > 0 ||
                    has_shared_volume(spec);
}

// Empty if the years of a metav1.Time, 0 to 9999, do not have it.
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

}  // namespace

Result<Pod> read_pod_protobuf(std::string_view message) {
  google::protobuf::Arena arena;
  auto& read = *google::protobuf::Arena::CreateMessage<proto::Pod>(&arena);
  if (!parse(read, message)) return malformed("a Pod");
  Pod pod;
  pod.json_bytes = message.size();
  pod.metadata = metadata_of(read.metadata());
  read_spec(read.spec(), pod);
  read_status(read.status(), pod);
  return pod;
}

Result<ListPage> read_pod_list_protobuf(std::string_view body) {
  const auto list = message_of(body, "PodList");
  if (!list) return list.error();
  ListPage page{text_at(*list, kListVersion), text_at(*list, kListContinue), {}};
  const bool read = visit_fields(*list, [&](int number, std::string_view bytes) {
    if (number == kListItems) page.items.emplace_back(bytes);
  });
  if (!read) return malformed("a PodList");
  if (page.resource_version.empty()) {
    return error("metadata.resourceVersion of the list is missing");
  }
  return page;
}

Result<WatchLine> read_pod_event_protobuf(std::string_view event) {
  using Kind = WatchLine::Kind;
  const auto type = field(event, {kEventType});
  const auto object = field(event, kEventObject);
  if (!type || !object) return malformed("an event of a watch");
  const auto kind = kind_of_event(*type);
  if (!kind) return kind.error();
  WatchLine line{.kind = *kind, .object = {}, .resource_version = {}, .status = {}};
  if (line.kind == Kind::kError) {
    line.status = read_status_protobuf(*object);
    return line;
  }
  const auto pod = message_of(*object, "Pod");
  if (!pod) return pod.error();
  line.object = *pod;
  line.resource_version = text_at(*pod, kObjectVersion);
  return line;
}

Status read_status_protobuf(std::string_view body) {
  google::protobuf::Arena arena;
  const auto read = read_message<proto::Status>(arena, body, "Status");
  if (!read) return {};
  return {.kind = "Status",
          .code = (*read)->code(),
          .reason = valid_text((*read)->reason()),
          .message = valid_text((*read)->message())};
}

std::string name_in_protobuf(std::string_view message) {
  const std::string name = text_at(message, kObjectName);
  const std::string name_space = text_at(message, kObjectNamespace);
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
  proto::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind("Binding");
  unknown.set_raw(message.SerializeAsString());
  return std::string(kMagic) + unknown.SerializeAsString();
}

Result<Binding> read_binding_protobuf(std::string_view body) {
  google::protobuf::Arena arena;
  const auto read = read_message<proto::Binding>(arena, body, "Binding");
  if (!read) return read.error();
  const Metadata metadata = metadata_of((*read)->metadata());
  return Binding{.pod = {metadata.name_space, metadata.name},
                 .uid = PodUid(metadata.uid),
                 .node = NodeName(valid_text((*read)->target().name())),
                 .annotations = {metadata.annotations.begin(), metadata.annotations.end()},
                 .resource_version = metadata.resource_version};
}

}  // namespace mgpu::kube
