// The functions of verbs.h that write nothing: routing, get, list and the reading of watch
// requests.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "bench/apiserver/object.h"
#include "bench/apiserver/verbs.h"
#include "common/base/text.h"

namespace mgpu::kube {
namespace {

Refusal no_such_path() {
  return {.code = 404,
          .reason = "NotFound",
          .message = "the server could not find the requested resource"};
}

Refusal no_such_method() {
  return {.code = 405,
          .reason = "MethodNotAllowed",
          .message = "the server does not allow this method on the requested resource"};
}

Response answer_of(const Refusal& refusal) {
  return answer(refusal.code, status_text(refusal));
}

// A number in a query; 0 if it is absent.
template <class Number>
Number read_parameter(const ApiPath& path, std::string_view name) {
  const std::string_view text = path.parameter(name);
  const auto number = parse_number<Number>(text.empty() ? "0" : text);
  if (number) return *number;
  throw bad_request("strconv.ParseInt: parsing " + in_quotes(text) + ": invalid syntax");
}

// Where a list begins or continues: after the key `start`, at a version that the history holds.
struct ListPosition {
  std::uint64_t version = 0;
  std::string start;
};

// The value of `continue`. Version 0 stands for the newest.
std::string to_token(std::uint64_t version, std::string_view start) {
  return fmt::format("{}.{}", version, start);
}

ListPosition read_position(MemoryCluster& cluster, const ApiPath& path) {
  ListPosition position;
  const std::string_view token = path.parameter("continue");
  if (!token.empty()) {
    const std::size_t dot = token.find('.');
    const auto version = parse_number<std::uint64_t>(token.substr(0, dot));
    if (dot == std::string_view::npos || !version) {
      throw bad_request("invalid continue token: continue key is not valid");
    }
    position = {*version, std::string(token.substr(dot + 1))};
  }
  if (position.version == 0) position.version = cluster.version();
  if (position.version > cluster.version()) {
    throw bad_request("invalid continue token: it is of a version that does not exist");
  }
  if (cluster.collection(path.kind).holds(position.version)) return position;
  throw Refusal{.code = 410,
                .reason = "Expired",
                .message =
                    "The provided continue parameter is too old to display a consistent "
                    "list result. You can start a new list without the continue parameter, "
                    "or use the continue token in this response to retrieve the remainder "
                    "of the results.",
                .continue_token = to_token(0, position.start)};
}

void check_list_version(const MemoryCluster& cluster, const ApiPath& path) {
  const std::string_view text = path.parameter("resourceVersion");
  if (path.parameter("resourceVersionMatch") == "Exact") {
    throw bad_request("lists of an exact version are not supported by the in-memory API server");
  }
  if (text.empty()) return;
  const auto version = parse_number<std::uint64_t>(text);
  if (!version) {
    throw bad_request("invalid resource version: resourceVersion: Invalid value: " +
                      in_quotes(text));
  }
  if (*version <= cluster.version()) return;
  throw Refusal{.code = 504,
                .reason = "Timeout",
                .message = fmt::format("Timeout: Too large resource version: {}, current: {}",
                                       *version, cluster.version())};
}

ObjectFilter read_filter(const ApiPath& path) {
  if (!path.parameter("labelSelector").empty()) {
    throw bad_request("label selectors are not supported by the in-memory API server");
  }
  auto terms = read_field_selector(path.served(), path.parameter("fieldSelector"));
  if (!terms) throw bad_request(terms.error().message);
  return {path.name_space.empty() ? "" : path.name_space + "/", *std::move(terms)};
}

Response serve_object(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  const bool is_pod = path.served().kind == "Pod";
  if (is_pod && (path.subresource == "binding" || path.subresource == "eviction")) {
    if (request.method != Method::kPost) throw no_such_method();
    return path.subresource == "binding" ? serve_binding(cluster, path, request)
                                         : serve_eviction(cluster, path, request);
  }
  const bool is_status = path.subresource == "status" && path.served().has_status;
  if (!path.subresource.empty() && !is_status) throw no_such_path();
  switch (request.method) {
    case Method::kGet:
      return serve_get(cluster, path);
    case Method::kPut:
      return serve_update(cluster, path, request);
    case Method::kPatch:
      return serve_patch(cluster, path, request);
    case Method::kDelete:
      if (is_status) break;
      return serve_delete(cluster, path, request);
    case Method::kPost:
      break;
  }
  throw no_such_method();
}

Response serve_collection(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  if (request.method == Method::kGet) return serve_list(cluster, path);
  const bool has_place = !path.served().in_namespaces || !path.name_space.empty();
  if (request.method != Method::kPost || !has_place) throw no_such_method();
  return serve_create(cluster, path, request);
}

}  // namespace

Response serve(MemoryCluster& cluster, const Request& request) try {
  const std::string_view target = request.target;
  const std::string_view bare = target.substr(0, target.find('?'));
  if (bare == "/version") {
    return answer(200, R"({"major":"1","minor":"37","gitVersion":"v1.37.2","platform":"memory"})");
  }
  if (bare == "/healthz" || bare == "/livez" || bare == "/readyz") return answer(200, "ok");
  const auto path = read_api_path(target);
  if (!path) throw no_such_path();
  return path->name.empty() ? serve_collection(cluster, *path, request)
                            : serve_object(cluster, *path, request);
} catch (const Refusal& refusal) {
  return answer_of(refusal);
}

ObjectPtr find_object(MemoryCluster& cluster, const ApiPath& path) {
  ObjectPtr object = cluster.collection(path.kind).find(path.key());
  if (!object) throw not_found(path.served(), path.name);
  return object;
}

Response serve_get(MemoryCluster& cluster, const ApiPath& path) {
  return answer(200, full_text(path.served(), *find_object(cluster, path)));
}

Response serve_list(MemoryCluster& cluster, const ApiPath& path) {
  const ObjectFilter filter = read_filter(path);
  const auto limit = read_parameter<std::int64_t>(path, "limit");
  check_list_version(cluster, path);
  const auto [version, start] = read_position(cluster, path);
  // "Any version" lists are not paged, as in the API server's watch cache.
  const bool paged = limit > 0 && path.parameter("resourceVersion") != "0";
  const StorePage page = cluster.collection(path.kind).page(
      filter, version, paged ? static_cast<std::size_t>(limit) : 0, start);
  Json metadata = {{"resourceVersion", std::to_string(version)}};
  if (page.remaining > 0) metadata["continue"] = to_token(version, page.last_key);
  if (page.remaining > 0 && filter.terms.empty()) metadata["remainingItemCount"] = page.remaining;
  std::string text = fmt::format(R"({{"kind":"{}List","apiVersion":"{}","metadata":{},"items":[)",
                                 path.served().kind, path.served().api_version(), metadata.dump());
  for (const ObjectPtr& object : page.items) {
    if (object != page.items.front()) text += ',';
    text += object->text;
  }
  return answer(200, text + "]}");
}

WatchRequest read_watch(const Request& request) try {
  const auto path = read_api_path(request.target);
  if (!path || !path->name.empty() || request.method != Method::kGet) throw no_such_path();
  WatchRequest watch;
  watch.kind = path->kind;
  watch.bookmarks = path->flag("allowWatchBookmarks");
  watch.filter = read_filter(*path);
  const auto seconds = read_parameter<std::uint32_t>(*path, "timeoutSeconds");
  if (seconds != 0) watch.timeout = std::chrono::seconds(seconds);
  const std::string_view version = path->parameter("resourceVersion");
  watch.version = parse_number<std::uint64_t>(version.empty() ? "0" : version);
  if (!watch.version) {
    throw Refusal{.code = 500, .message = "resourceVersion: Invalid value: " + in_quotes(version)};
  }
  if (watch.version == std::uint64_t{0}) watch.version.reset();
  if (path->flag("sendInitialEvents")) {
    throw Refusal{
        .code = 422, .reason = "Invalid", .message = "sendInitialEvents is forbidden for watch"};
  }
  return watch;
} catch (const Refusal& refusal) {
  WatchRequest watch;
  watch.refused = answer_of(refusal);
  return watch;
}

}  // namespace mgpu::kube
