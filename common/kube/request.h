// Requests to the API server as values: which path, query and body a thing needs, and nothing of
// how it gets there. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/executor.h"
#include "common/ids.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// What to list and watch: a collection, cluster-wide, with an optional field selector.
struct Resource {
  std::string path;            // "/api/v1/nodes"
  std::string field_selector;  // "spec.nodeName!=,status.phase!=Succeeded"; empty = everything
};

Resource all_nodes();
// Pods that hold cards: bound, and neither Succeeded nor Failed; selected at the server.
Resource bound_pods();
Resource all_pod_disruption_budgets();

// The first page from the newest state, or the page after `continue_token`.
Request list(const Resource& resource, std::uint32_t limit, std::string_view continue_token);
// From `resource_version` on, with bookmarks; the server ends it after `timeout`.
Request watch(const Resource& resource, std::string_view resource_version,
              std::chrono::seconds timeout);

Request get_pod(const PodRef& pod);
Request get_node(const NodeName& node);
Request get_version();

struct Binding {
  PodRef pod;
  PodUid uid;  // precondition: another uid is a 409
  NodeName node;
  std::map<std::string, std::string> annotations;  // merged into the pod by the same write
};
// POST pods/{name}/binding: sets spec.nodeName and the annotations in one transaction
// (kubernetes pkg/registry/core/pod/storage/storage.go, BindingREST.Create).
Request bind(const Binding& binding);

}  // namespace mgpu::kube
