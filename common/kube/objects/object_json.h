// Reads the JSON of the API server into objects.h. Absent members are empty; a member of a wrong
// type is an error. Members that are not read never make an object unreadable. Pure; any thread.
//
// Pods, their lists and events, and Status are also read in Kubernetes' protobuf encoding
// (object_protobuf.h), which the beginning of a text tells from JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// Errors: not JSON; a member of another type than Kubernetes gives it (the sentence names it).
// Member names match exactly, as Kubernetes writes them.
Result<Pod> read_pod(std::string_view json);
Result<Node> read_node(std::string_view json);
Result<PodDisruptionBudget> read_pod_disruption_budget(std::string_view json);
Result<Lease> read_lease(std::string_view json);
Result<Service> read_service(std::string_view json);
Result<EndpointSlice> read_endpoint_slice(std::string_view json);
// No error sentence has a value of `data`.
Result<Secret> read_secret(std::string_view json);

// A page of a list: metadata.resourceVersion, metadata.continue and the text of each item.
struct ListPage {
  std::string resource_version;
  std::string continue_token;  // empty on the last page
  std::vector<std::string> items;
};
Result<ListPage> read_list_page(std::string_view json);

// One line of a watch.
struct WatchLine {
  enum class Kind { kAdded, kModified, kDeleted, kBookmark, kError };
  Kind kind = Kind::kAdded;
  std::string object;            // JSON text, or protobuf
  std::string resource_version;  // metadata.resourceVersion of the object; may be empty
};
Result<WatchLine> read_watch_line(std::string_view json);
// Errors: Kubernetes has no events of this type.
Result<WatchLine::Kind> kind_of_event(std::string_view type);

// The object of a watch line that cannot be read as a whole, from the beginning of the line:
// kube-apiserver writes kind, apiVersion and metadata first, and in metadata name, namespace and
// resourceVersion before everything that a user can make long (apimachinery meta/v1 types.go).
struct LineBeginning {
  std::string name;  // "namespace/name", or "name"
  std::string resource_version;
};
// None: the beginning has no name or no version, or the line is protobuf.
std::optional<LineBeginning> read_line_beginning(std::string_view line);
// The same name, of an object that cannot be read; empty where its beginning does not have it.
std::string name_of_object(std::string_view json);

// A metav1.Status; fields absent from the text are zero or empty.
struct Status {
  std::string kind;  // "Status"
  std::int32_t code = 0;
  std::string reason;  // "Conflict", "Expired", ...
  std::string message;
};
Status read_status(std::string_view json);

// An answer that is not a success, as the end of an error sentence: "HTTP 409 Conflict: the
// server's own message", or the transport's message where there was no answer.
std::string answer_text(const Response& response);

}  // namespace mgpu::kube
