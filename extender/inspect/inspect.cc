#include "extender/inspect/inspect.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "common/kube/objects/object_json.h"
#include "extender/inspect/inspections.h"
#include "extender/inspect/limits.h"
#include "extender/inspect/views.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {

namespace {

using http::error_response;
using http::query_value;
using http::Request;
using http::Respond;
using http::Response;

// What the handlers read. The router's handlers own it.
struct Dependencies {
  const VerbContext context;
  kube::Client& client;
  Inspections inspections;
  CountGroup count_group{};
  CallbackGuard answers{};  // of the API server; ends first

  Instant now() const { return client.executor().now(); }
};

// An explanation that begins now.
ExplainBounds explain_bounds(const Dependencies& from) {
  return {.steps = kExplainStepsMax,
          .rows = kExplainRowsMax,
          .go_on = [&from, deadline = from.now() + kExplainTimeMax] {
            return !from.inspections.ending() && from.now() < deadline;
          }};
}

Response explain_now(const Dependencies& from, const kube::Pod& pod, const Page& page,
                     std::size_t group_pods = 0) {
  // This removes what is no longer kept.
  from.context.ledger.reader().read(from.now(), [](const View&) {});
  return explain_view(from.context, pod, page, explain_bounds(from), group_pods);
}

Response busy() {
  return error_response(429, std::to_string(kInspectionsMax) +
                                 " requests for /inspect are being answered; try again later");
}

Result<std::string> required(const Request& request, const std::string& name) {
  std::string value = query_value(request.query, name);
  if (value.empty()) return error(fmt::format("query parameter {} is missing", name));
  return value;
}

Result<PodRef> read_pod_ref(const Request& request) {
  auto name = required(request, "name");
  if (!name) return name.error();
  std::string name_space = query_value(request.query, "namespace");
  return PodRef{name_space.empty() ? "default" : std::move(name_space), std::move(*name)};
}

Result<Page> explain_page(const Request& request) {
  return read_page(request.query, kExplainNodesDefault, kExplainNodesMax);
}

Result<kube::Pod> read_manifest(const Request& request) {
  auto pod = kube::read_pod(request.body);
  if (!pod) return error("the Pod manifest: " + pod.error().message);
  if (pod->metadata.name_space.empty()) pod->metadata.name_space = "default";
  return pod;
}

Response explain_manifest(const Dependencies& from, const Request& request) {
  const auto page = explain_page(request);
  if (!page) return error_response(400, page.error().message);
  const auto pod = read_manifest(request);
  if (!pod) return error_response(400, pod.error().message);
  return explain_now(from, *pod, *page);
}

Response simulate_manifest(const Dependencies& from, const Request& request) {
  const auto query = read_simulate_query(request.query);
  if (!query) return error_response(400, query.error().message);
  const auto pod = read_manifest(request);
  if (!pod) return error_response(400, pod.error().message);
  // This removes what is no longer kept.
  from.context.ledger.reader().read(from.now(), [](const View&) {});
  return simulate_view(from.context, *pod, *query, explain_bounds(from));
}

// Called on the executor of the API server, where nothing may take long.
void answer_pod(Dependencies& from, const kube::ApiResult<kube::Pod>& pod, const Page& page,
                Inspections::Slot slot, const Respond& respond) {
  if (!pod) {
    const bool absent = pod.error().kind == kube::ApiError::Kind::kNotFound;
    return respond(error_response(absent ? 404 : 503, pod.error().message));
  }
  const std::string group = group_name(*pod);
  const std::size_t pods = from.count_group && !group.empty() ? from.count_group(group) : 0;
  from.inspections.run(std::move(slot), [&from, pod = *pod, page, pods, respond] {
    respond(explain_now(from, pod, page, pods));
  });
}

void explain_pod(Dependencies& from, const Request& request, const Respond& respond) {
  const auto ref = read_pod_ref(request);
  if (!ref) return respond(error_response(400, ref.error().message));
  const auto page = explain_page(request);
  if (!page) return respond(error_response(400, page.error().message));
  Inspections::Slot slot = from.inspections.reserve();
  if (!slot) return respond(busy());
  from.client.get_pod(*ref, kExplainTimeout,
                      from.answers.wrap([&from, page = *page, slot = std::move(slot),
                                         respond](const kube::ApiResult<kube::Pod>& pod) {
                        answer_pod(from, pod, page, slot, respond);
                      }));
}

Response make_cluster(const Dependencies& from, const Request& request) {
  const auto page = read_page(request.query, kInspectNodesDefault, kInspectNodesMax);
  if (!page) return error_response(400, page.error().message);
  return cluster_view(from.context.ledger.reader(), *page, from.now());
}

Response make_node(const Dependencies& from, const Request& request) {
  const auto name = required(request, "name");
  if (!name) return error_response(400, name.error().message);
  return node_view(from.context.ledger.reader(), NodeName(*name));
}

Response make_pod(const Dependencies& from, const Request& request) {
  const auto ref = read_pod_ref(request);
  if (!ref) return error_response(400, ref.error().message);
  return pod_view(from.context.ledger.reader(), *ref);
}

Response make_policy(const Dependencies& from, const Request&) {
  return policy_view(from.context, from.now());
}

using MakeView = Response (*)(const Dependencies& from, const Request& request);

}  // namespace

void add_routes(http::Router& router, const std::string& prefix, const VerbContext& context,
                kube::Client& client, Executor& executor, CountGroup count_group) {
  const std::shared_ptr<Dependencies> from(
      new Dependencies{context, client, Inspections(executor), std::move(count_group)});
  const auto add = [&](const char* method, const char* path, MakeView make) {
    router.add(method, prefix + path, [from, make](Request request, const Respond& respond) {
      Inspections::Slot slot = from->inspections.reserve();
      if (!slot) return respond(busy());
      from->inspections.run(std::move(slot),
                            [&dependencies = *from, make, request = std::move(request), respond] {
                              respond(make(dependencies, request));
                            });
    });
  };
  add("GET", "/cluster", make_cluster);
  add("GET", "/node", make_node);
  add("GET", "/pod", make_pod);
  add("GET", "/policy", make_policy);
  add("POST", "/explain", explain_manifest);
  add("POST", "/simulate", simulate_manifest);
  router.add("GET", prefix + "/explain", [from](const Request& request, const Respond& respond) {
    explain_pod(*from, request, respond);
  });
}

}  // namespace mgpu::extender
