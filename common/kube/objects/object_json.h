// Reads the JSON of the API server into objects.h. Absent members are empty; a member of a wrong
// type is an error. Members that are not read never make an object unreadable. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kube {

// Errors: not JSON; a member of another type than Kubernetes gives it (the sentence names it).
// Member names match exactly, as Kubernetes writes them.
Result<Pod> read_pod(std::string_view json);
Result<PodScheduling> read_pod_scheduling(std::string_view json);
Result<Node> read_node(std::string_view json);
Result<PodDisruptionBudget> read_pod_disruption_budget(std::string_view json);
Result<Lease> read_lease(std::string_view json);
Result<Service> read_service(std::string_view json);
Result<PodGroup> read_pod_group(std::string_view json);
Result<EndpointSlice> read_endpoint_slice(std::string_view json);
// No error sentence has a value of `data`.
Result<Secret> read_secret(std::string_view json);

// Reads metadata.resourceVersion, metadata.continue and the text of each item of any list.
Result<ListPage> read_list_page(std::string_view json);
// One line of a watch.
Result<WatchLine> read_watch_line(std::string_view json);

// The object of a watch line that cannot be read as a whole, from the beginning of the line:
// kube-apiserver writes kind, apiVersion and metadata first, and in metadata name, namespace and
// resourceVersion before everything that a user can make long (apimachinery meta/v1 types.go).
struct LineBeginning {
  std::string name;  // "namespace/name", or "name"
  std::string resource_version;
};
// Returns nullopt if the beginning has no name or no version.
std::optional<LineBeginning> read_line_beginning(std::string_view line);
// The same name, of an object that cannot be read; empty if its beginning does not have it.
std::string name_of_object(std::string_view json);

// Fields absent from the text are zero or empty, as all are of a text that is not a Status.
Status read_status(std::string_view json);

}  // namespace mgpu::kube
