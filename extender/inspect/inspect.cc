#include "extender/inspect/inspect.h"

#include <utility>

#include "common/base/callback_guard.h"
#include "common/kube/client.h"
#include "common/kube/object_json.h"
#include "extender/inspect/limits.h"
#include "extender/inspect/views.h"

namespace mgpu::extender {

namespace {

using http::error_response;
using http::query_value;
using http::Request;
using http::Respond;

// What the handlers work on. Lives as long as the router.
struct CallHandlers {
  CallHandlers(Ledger& its_ledger, const Settings& its_settings, kube::Client& its_client)
      : ledger(its_ledger), settings(its_settings), client(its_client) {}

  Instant now() const { return client.executor().now(); }

  Ledger& ledger;
  const Settings& settings;
  kube::Client& client;
  CallbackGuard answers;  // of the API server; ends first
};

Result<std::string> required(const Request& request, const std::string& name) {
  std::string value = query_value(request.query, name);
  if (value.empty()) return error("query parameter " + name + " is missing");
  return value;
}

Result<PodRef> read_pod_ref(const Request& request) {
  auto name = required(request, "name");
  if (!name) return name.error();
  std::string space = query_value(request.query, "namespace");
  return PodRef{space.empty() ? "default" : std::move(space), std::move(*name)};
}

Result<Page> explain_page(const Request& request) {
  return read_page(request.query, kExplainNodesDefault, kExplainNodesMax);
}

http::Response cluster(CallHandlers& desk, const Request& request) {
  const auto page = read_page(request.query, kInspectNodesDefault, kInspectNodesMax);
  if (!page) return error_response(400, page.error().message);
  return cluster_view(desk.ledger, *page, desk.now());
}

http::Response node(CallHandlers& desk, const Request& request) {
  const auto name = required(request, "name");
  if (!name) return error_response(400, name.error().message);
  return node_view(desk.ledger, NodeName(*name));
}

http::Response pod(CallHandlers& desk, const Request& request) {
  const auto ref = read_pod_ref(request);
  if (!ref) return error_response(400, ref.error().message);
  return pod_view(desk.ledger, *ref);
}

http::Response policy(CallHandlers& desk, const Request&) {
  return policy_view(desk.settings, desk.now());
}

http::Response explain_manifest(CallHandlers& desk, const Request& request) {
  const auto page = explain_page(request);
  if (!page) return error_response(400, page.error().message);
  auto read = kube::read_pod(request.body);
  if (!read) return error_response(400, "the Pod manifest: " + read.error().message);
  if (read->metadata.space.empty()) read->metadata.space = "default";
  return explain_view(desk.ledger, desk.settings, *read, *page, desk.now());
}

http::Response explain_found(CallHandlers& desk, const kube::ApiResult<kube::Pod>& found,
                             const Page& page) {
  if (found) return explain_view(desk.ledger, desk.settings, *found, page, desk.now());
  const bool absent = found.error().kind == kube::ApiError::Kind::kNotFound;
  return error_response(absent ? 404 : 503, found.error().message);
}

void explain_pod(CallHandlers& desk, const Request& request, Respond respond) {
  const auto ref = read_pod_ref(request);
  if (!ref) return respond(error_response(400, ref.error().message));
  const auto page = explain_page(request);
  if (!page) return respond(error_response(400, page.error().message));
  desk.client.get_pod(*ref, kExplainTimeout,
                      desk.answers.wrap([&desk, page = *page, respond = std::move(respond)](
                                            const kube::ApiResult<kube::Pod>& found) {
                        respond(explain_found(desk, found, page));
                      }));
}

}  // namespace

void add_routes(http::Router& router, const std::string& prefix, Ledger& ledger,
                const Settings& settings, kube::Client& client) {
  const auto desk = std::make_shared<CallHandlers>(ledger, settings, client);
  const auto add = [&](const char* method, const char* path, auto view) {
    router.add(method, prefix + path, [desk, view](const Request& request, const Respond& respond) {
      respond(view(*desk, request));
    });
  };
  add("GET", "/cluster", cluster);
  add("GET", "/node", node);
  add("GET", "/pod", pod);
  add("GET", "/policy", policy);
  add("POST", "/explain", explain_manifest);
  router.add("GET", prefix + "/explain", [desk](const Request& request, const Respond& respond) {
    explain_pod(*desk, request, respond);
  });
}

}  // namespace mgpu::extender
