#include "extender/inspect/inspect.h"

#include <memory>
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
using http::Response;

// What the handlers read. The router's handlers own it.
struct Sources {
  Ledger& ledger;
  const Settings& settings;
  kube::Client& client;
  CallbackGuard callbacks{};  // of the API server's answers; ends first

  Instant now() const { return client.executor().now(); }
};

Result<std::string> required(const Request& request, const std::string& name) {
  std::string value = query_value(request.query, name);
  if (value.empty()) return error("query parameter " + name + " is missing");
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

Response explain_manifest(Sources& from, const Request& request) {
  const auto page = explain_page(request);
  if (!page) return error_response(400, page.error().message);
  auto pod = kube::read_pod(request.body);
  if (!pod) return error_response(400, "the Pod manifest: " + pod.error().message);
  if (pod->metadata.name_space.empty()) pod->metadata.name_space = "default";
  return explain_view(from.ledger, from.settings, *pod, *page, from.now());
}

void explain_pod(Sources& from, const Request& request, Respond respond) {
  const auto ref = read_pod_ref(request);
  if (!ref) return respond(error_response(400, ref.error().message));
  const auto page = explain_page(request);
  if (!page) return respond(error_response(400, page.error().message));
  from.client.get_pod(
      *ref, kExplainTimeout,
      from.callbacks.wrap([&from, page = *page,
                           respond = std::move(respond)](const kube::ApiResult<kube::Pod>& pod) {
        if (pod) {
          return respond(explain_view(from.ledger, from.settings, *pod, page, from.now()));
        }
        const bool absent = pod.error().kind == kube::ApiError::Kind::kNotFound;
        respond(error_response(absent ? 404 : 503, pod.error().message));
      }));
}

}  // namespace

void add_routes(http::Router& router, const std::string& prefix, Ledger& ledger,
                const Settings& settings, kube::Client& client) {
  const std::shared_ptr<Sources> from(new Sources{ledger, settings, client});
  const auto add = [&](const char* method, const char* path, auto view) {
    router.add(method, prefix + path, [from, view](const Request& request, const Respond& respond) {
      respond(view(*from, request));
    });
  };
  add("GET", "/cluster", [](Sources& sources, const Request& request) {
    const auto page = read_page(request.query, kInspectNodesDefault, kInspectNodesMax);
    if (!page) return error_response(400, page.error().message);
    return cluster_view(sources.ledger, *page, sources.now());
  });
  add("GET", "/node", [](Sources& sources, const Request& request) {
    const auto name = required(request, "name");
    if (!name) return error_response(400, name.error().message);
    return node_view(sources.ledger, NodeName(*name));
  });
  add("GET", "/pod", [](Sources& sources, const Request& request) {
    const auto ref = read_pod_ref(request);
    if (!ref) return error_response(400, ref.error().message);
    return pod_view(sources.ledger, *ref);
  });
  add("GET", "/policy", [](Sources& sources, const Request&) {
    return policy_view(sources.settings, sources.now());
  });
  add("POST", "/explain", explain_manifest);
  router.add("GET", prefix + "/explain", [from](const Request& request, const Respond& respond) {
    explain_pod(*from, request, respond);
  });
}

}  // namespace mgpu::extender
