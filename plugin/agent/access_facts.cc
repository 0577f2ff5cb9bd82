#include "plugin/agent/access_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/kube/objects/json_value.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "plugin/agent/call.h"
#include "plugin/kubelet/runtime.h"
#include "plugin/node/limits.h"

namespace mgpu::plugin {

namespace {

void ask_runtime(const AccessPlace& place, AccessFacts& facts) {
  const auto runtime = query_runtime(place.runtime_socket, place.cdi_folder, place.timeout);
  if (!runtime) {
    facts.problems.push_back(runtime.error().message);
    return;
  }
  facts.cdi_problem = runtime->cdi ? "" : runtime->why;
  facts.default_handler = runtime->default_handler;
  facts.nvidia_handlers = runtime->nvidia_handlers;
  if (!runtime->unknown_handlers.empty()) {
    facts.problems.push_back(
        fmt::format("{} {} has handlers that run programs which are not known: {}; check that they "
                    "give no cards to containers",
                    runtime->name, runtime->version, fmt::join(runtime->unknown_handlers, ", ")));
  } else if (!runtime->default_handler) {
    facts.problems.push_back(
        fmt::format("{} {} does not report its default runtime; check that it is not NVIDIA's",
                    runtime->name, runtime->version));
  }
}

void read_toolkit(const AccessPlace& place, AccessFacts& facts) {
  FoundToolkit toolkit = find_toolkit(place.node_root);
  facts.toolkit = toolkit.settings;
  for (std::string& problem : toolkit.problems) facts.problems.push_back(std::move(problem));
}

void ask_for_capacity(const AccessPlace& place, kube::Transport& transport, AccessFacts& facts) {
  const auto response = send_and_wait(transport, kube::get_node(place.node), place.timeout);
  if (response.status == 404) return;
  if (!response.ok()) {
    facts.problems.push_back(
        fmt::format("get node {}: {}", place.node.str(), kube::answer_text(response)));
    return;
  }
  auto node = kube::read_node(response.body);
  if (!node) {
    facts.problems.push_back(fmt::format("node {}: {}", place.node.str(), node.error().message));
    return;
  }
  facts.capacity = std::move(node->capacity);
}

Result<bool> has_items(std::string_view body) {
  bool found = false;
  const auto read = kube::read_json(body, [&](kube::JsonValue& root) {
    root.read({{"items", [&](kube::JsonValue& items) {
                  items.elements([&](kube::JsonValue&) { found = true; });
                }}});
  });
  if (!read) return read.error();
  return found;
}

// A version that the API server does not have is 404.
void ask_for_slices(const AccessPlace& place, kube::Transport& transport, AccessFacts& facts) {
  const auto fail = [&facts](const std::string& why) {
    facts.problems.push_back("list resourceslices: " + why);
  };
  for (const char* const version : {"v1", "v1beta1"}) {
    const auto slices = kube::resource_slices(version, kDraDriver, place.node);
    const auto response = send_and_wait(transport, kube::list(slices, 1, ""), place.timeout);
    if (response.status == 404) continue;
    if (!response.ok()) return fail(kube::answer_text(response));
    const auto found = has_items(response.body);
    if (!found) return fail(found.error().message);
    facts.has_resource_slice = *found;
    return;
  }
}

}  // namespace

AccessFacts access_facts(const AccessPlace& place, kube::Transport& transport,
                         const std::function<bool()>& stopping) {
  AccessFacts facts;
  read_toolkit(place, facts);
  // Each question may take its whole timeout, and a shutdown does not wait for all of them.
  if (!stopping()) ask_runtime(place, facts);
  if (!stopping()) ask_for_capacity(place, transport, facts);
  if (!stopping()) ask_for_slices(place, transport, facts);
  return facts;
}

}  // namespace mgpu::plugin
