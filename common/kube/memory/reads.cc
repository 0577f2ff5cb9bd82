// Routing, get, list and the reading of watch requests: the half of memory_verbs.h that changes
// nothing.
#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "common/base/text.h"
#include "common/kube/memory/object.h"
#include "common/kube/memory/verbs.h"

namespace mgpu::kube {
namespace {

Response no_such_path() {
  return refuse({.code = 404,
                 .reason = "NotFound",
                 .message = "the server could not find the requested resource"});
}

Response no_such_method() {
  return refuse({.code = 405,
                 .reason = "MethodNotAllowed",
                 .message = "the server does not allow this method on the requested resource"});
}

Refusal bad_number(std::string_view text) {
  return bad_request("strconv.ParseInt: parsing " + in_quotes(text) + ": invalid syntax");
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number{};
  const auto [read, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || read != text.data() + text.size()) return std::nullopt;
  return number;
}

// Where a list goes on: which version it shows, after which key, and how many objects are left.
struct ListPosition {
  std::uint64_t version = 0;  // 0: whatever is newest
  std::size_t remaining = 0;
  std::string start;
};

std::string to_token(const ListPosition& position) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string token =
      std::to_string(position.version) + "." + std::to_string(position.remaining) + ".";
  for (const char c : position.start) {
    const auto byte = static_cast<unsigned char>(c);
    token += kHex[byte >> 4];
    token += kHex[byte & 15];
  }
  return token;
}

std::optional<std::string> from_hex(std::string_view hex) {
  std::string text;
  if (hex.size() % 2 != 0) return std::nullopt;
  for (; !hex.empty(); hex.remove_prefix(2)) {
    unsigned char byte = 0;
    if (std::from_chars(hex.data(), hex.data() + 2, byte, 16).ptr != hex.data() + 2) {
      return std::nullopt;
    }
    text += static_cast<char>(byte);
  }
  return text;
}

std::optional<ListPosition> from_token(std::string_view token) {
  const std::size_t first = std::min(token.find('.'), token.size());
  const std::size_t second = std::min(token.find('.', first + 1), token.size());
  if (second == token.size()) return std::nullopt;
  const auto version = read_number<std::uint64_t>(token.substr(0, first));
  const auto remaining = read_number<std::size_t>(token.substr(first + 1, second - first - 1));
  const auto start = from_hex(token.substr(second + 1));
  if (!version || !remaining || !start) return std::nullopt;
  return ListPosition{*version, *remaining, *start};
}

// Where the list begins or goes on, at a version that is there.
std::optional<Refusal> read_position(MemoryCluster& cluster, const ApiPath& path,
                                     ListPosition& position) {
  const std::string_view token = path.parameter("continue");
  if (!token.empty()) {
    const auto read = from_token(token);
    if (!read) return bad_request("invalid continue token: continue key is not valid");
    position = *read;
  }
  if (position.version == 0) position.version = cluster.version();
  if (position.version > cluster.version()) {
    return bad_request("invalid continue token: it is of a version that does not exist");
  }
  if (cluster.collection(path.kind).holds(position.version)) return {};
  const ListPosition restart{0, position.remaining, position.start};
  return Refusal{.code = 410,
                 .reason = "Expired",
                 .message =
                     "The provided continue parameter is too old to display a consistent "
                     "list result. You can start a new list without the continue parameter, "
                     "or use the continue token in this response to retrieve the remainder "
                     "of the results.",
                 .continue_token = to_token(restart)};
}

std::optional<Refusal> check_list_version(const MemoryCluster& cluster, const ApiPath& path) {
  const std::string_view text = path.parameter("resourceVersion");
  if (path.parameter("resourceVersionMatch") == "Exact") {
    return bad_request("lists of an exact version are not supported by the in-memory API server");
  }
  if (text.empty()) return {};
  const auto version = read_number<std::uint64_t>(text);
  if (!version) {
    return bad_request("invalid resource version: resourceVersion: Invalid value: " +
                       in_quotes(text));
  }
  if (*version <= cluster.version()) return {};
  return Refusal{.code = 504,
                 .reason = "Timeout",
                 .message = "Timeout: Too large resource version: " + std::to_string(*version) +
                            ", current: " + std::to_string(cluster.version())};
}

std::optional<Refusal> read_limit(const ApiPath& path, std::size_t& limit) {
  const std::string_view text = path.parameter("limit");
  if (text.empty()) return {};
  const auto number = read_number<std::int64_t>(text);
  if (!number) return bad_number(text);
  // "Any version" lists are not paged, as in the API server's watch cache.
  const bool paged = *number > 0 && path.parameter("resourceVersion") != "0";
  limit = paged ? static_cast<std::size_t>(*number) : 0;
  return {};
}

// `position` is where the list stands after the page.
std::string list_text(const ServedKind& kind, const StorePage& page, const ListPosition& position,
                      bool counted) {
  Json metadata = {{"resourceVersion", std::to_string(position.version)}};
  if (page.more) metadata["continue"] = to_token(position);
  if (page.more && counted) metadata["remainingItemCount"] = position.remaining;
  std::string text = R"({"kind":")" + std::string(kind.kind) + R"(List","apiVersion":")" +
                     std::string(kind.api_version) + R"(","metadata":)" + metadata.dump() +
                     R"(,"items":[)";
  for (const ObjectPtr& object : page.items) {
    if (object != page.items.front()) text += ',';
    text += object->text;
  }
  return text + "]}";
}

Response serve_object(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  switch (request.method) {
    case Method::kGet:
      return serve_get(cluster, path);
    case Method::kPut:
      return serve_update(cluster, path, request);
    case Method::kPatch:
      return serve_patch(cluster, path, request);
    case Method::kDelete:
      return path.subresource.empty() ? serve_delete(cluster, path, request) : no_such_method();
    case Method::kPost:
      break;
  }
  return no_such_method();
}

Response serve_collection(MemoryCluster& cluster, const ApiPath& path, const Request& request) {
  if (request.method == Method::kGet) return serve_list(cluster, path);
  const bool placed = !served_kinds()[path.kind].in_namespaces || !path.name_space.empty();
  if (request.method != Method::kPost || !placed) return no_such_method();
  return serve_create(cluster, path, request);
}

}  // namespace

Response serve(MemoryCluster& cluster, const Request& request) {
  const std::string_view target = request.target;
  const std::string_view bare = target.substr(0, target.find('?'));
  if (bare == "/version") {
    return answer(200, R"({"major":"1","minor":"36","gitVersion":"v1.36.3","platform":"memory"})");
  }
  if (bare == "/healthz" || bare == "/livez" || bare == "/readyz") return answer(200, "ok");
  const auto path = read_api_path(target);
  if (!path) return no_such_path();
  const ServedKind& kind = served_kinds()[path->kind];
  if (path->name.empty()) return serve_collection(cluster, *path, request);
  if (kind.kind == "Pod" && (path->subresource == "binding" || path->subresource == "eviction")) {
    if (request.method != Method::kPost) return no_such_method();
    return path->subresource == "binding" ? serve_binding(cluster, *path, request)
                                          : serve_eviction(cluster, *path, request);
  }
  const bool is_status = path->subresource == "status" && kind.has_status;
  if (!path->subresource.empty() && !is_status) return no_such_path();
  return serve_object(cluster, *path, request);
}

Response serve_get(MemoryCluster& cluster, const ApiPath& path) {
  const ServedKind& kind = served_kinds()[path.kind];
  const ObjectPtr object =
      cluster.collection(path.kind).find(object_key(path.name_space, path.name));
  if (!object) return refuse(not_found(kind, path.name));
  return answer(200, full_text(kind, *object));
}

Response serve_list(MemoryCluster& cluster, const ApiPath& path) {
  ObjectFilter filter;
  ListPosition position;
  std::size_t limit = 0;
  if (const auto refusal = read_filter(path, filter)) return refuse(*refusal);
  if (const auto refusal = read_limit(path, limit)) return refuse(*refusal);
  if (const auto refusal = check_list_version(cluster, path)) return refuse(*refusal);
  if (const auto refusal = read_position(cluster, path, position)) return refuse(*refusal);
  const Collection& collection = cluster.collection(path.kind);
  const bool counted = filter.terms.empty();
  const bool first = path.parameter("continue").empty();
  const StorePage page = collection.page(filter, position.version, limit, position.start);
  position.start = page.last_key;
  if (!first) {
    position.remaining -= std::min(position.remaining, page.items.size());
  } else if (page.more && counted) {
    position.remaining = collection.count(filter, position.version, page.last_key);
  }
  return answer(200, list_text(served_kinds()[path.kind], page, position, counted));
}

std::optional<Refusal> read_filter(const ApiPath& path, ObjectFilter& filter) {
  if (!path.parameter("labelSelector").empty()) {
    return bad_request("label selectors are not supported by the in-memory API server");
  }
  auto terms = read_field_selector(served_kinds()[path.kind], path.parameter("fieldSelector"));
  if (!terms) return bad_request(terms.error().message);
  filter.terms = *std::move(terms);
  if (!path.name_space.empty()) filter.key_prefix = path.name_space + "/";
  return {};
}

WatchRequest read_watch(const Request& request) {
  WatchRequest watch;
  const auto path = read_api_path(request.target);
  if (!path || !path->name.empty() || request.method != Method::kGet) {
    watch.refused = no_such_path();
    return watch;
  }
  watch.kind = path->kind;
  watch.bookmarks = path->flag("allowWatchBookmarks");
  const std::string_view version = path->parameter("resourceVersion");
  const std::string_view timeout = path->parameter("timeoutSeconds");
  if (const auto refusal = read_filter(*path, watch.filter)) watch.refused = refuse(*refusal);
  if (path->flag("sendInitialEvents")) {
    watch.refused = refuse(
        {.code = 422, .reason = "Invalid", .message = "sendInitialEvents is forbidden for watch"});
  }
  const auto seconds = read_number<std::uint32_t>(timeout);
  if (!timeout.empty() && !seconds) watch.refused = refuse(bad_number(timeout));
  if (seconds.value_or(0) != 0) watch.timeout = std::chrono::seconds(*seconds);
  watch.version = read_number<std::uint64_t>(version);
  if (!version.empty() && !watch.version) {
    watch.refused =
        refuse({.code = 500, .message = "resourceVersion: Invalid value: " + in_quotes(version)});
  }
  if (watch.version == std::uint64_t{0}) watch.version.reset();
  return watch;
}

}  // namespace mgpu::kube
