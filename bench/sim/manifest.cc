#include "bench/sim/manifest.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "bench/sim/limits.h"

namespace mgpu::sim {
namespace {

using Json = nlohmann::json;

struct Location {
  const std::string& source;
  int line;  // counted from 1
};

Error at(const Location& location, const std::string& sentence) {
  return error(location.source + ":" + std::to_string(location.line) + ": " + sentence);
}

// Plain scalars follow the core schema of YAML 1.2; quoted scalars are text.
Json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  std::int64_t whole = 0;
  const char* end = text.data() + text.size();
  if (auto [stop, code] = std::from_chars(text.data(), end, whole);
      code == std::errc() && stop == end)
    return whole;
  return text;
}

// Each value takes at least one character, unless aliases repeat it. `values_left` begins with the
// number of characters, so that a short text of aliases does not become very many values. The
// result is written to `out`, because Json converts implicitly to and from Result.
Result<void> to_json(const YAML::Node& node, const std::string& source, int depth,
                     std::size_t& values_left, Json& out) {
  const Location location{source, node.Mark().line + 1};
  if (depth > kSimManifestDepthMax) return at(location, "nested too deeply");
  if (values_left == 0)
    return at(location, "aliases repeat more values than the text has characters");
  --values_left;
  if (node.IsScalar()) {
    out = scalar(node);
    return {};
  }
  out = node.IsMap() ? Json::object() : node.IsSequence() ? Json::array() : Json();
  for (const auto& item : node) {
    if (node.IsMap() && !item.first.IsScalar()) return at(location, "a key is not text");
    const YAML::Node value = node.IsMap() ? item.second : YAML::Node(item);
    Json& slot = node.IsMap() ? out[item.first.Scalar()] : out.emplace_back();
    if (auto read = to_json(value, source, depth + 1, values_left, slot); !read) return read;
  }
  return {};
}

std::string text_at(const Json& json, const char* pointer) {
  const Json::json_pointer where(pointer);
  return json.contains(where) && json[where].is_string() ? json[where].get<std::string>() : "";
}

void drop_server_fields(Json& object) {
  for (const char* field : {"uid", "resourceVersion", "creationTimestamp", "managedFields",
                            "generation", "selfLink", "ownerReferences", "generateName"})
    object["metadata"].erase(field);
}

class Collector {
 public:
  explicit Collector(const std::string& source) : source_(source) {}

  Result<void> add(const Json& object, int line) {
    const Location location{source_, line};
    if (object.is_null()) return {};
    if (!object.is_object()) return at(location, "a document is not a Kubernetes object");
    const std::string kind = text_at(object, "/kind");
    if (kind == "List" || kind == "NodeList" || kind == "PodList") return add_items(object, line);
    if (text_at(object, "/metadata/name").empty())
      return at(location, "metadata.name of a " + (kind.empty() ? "document" : kind) +
                              " is missing, expected a name");
    if (manifests_.nodes.size() + manifests_.pods.size() >= kSimObjectsMax)
      return at(location, "more than " + std::to_string(kSimObjectsMax) + " objects");
    if (kind == "Node") return add_node(object);
    if (kind == "Pod") return add_pod(object);
    return add_template(object, kind, location);
  }

  Manifests take() { return std::move(manifests_); }

 private:
  Result<void> add_items(const Json& list, int line) {
    if (!list.contains("items") || !list["items"].is_array())
      return at({source_, line}, "items of a List is missing, expected a list of objects");
    for (const Json& item : list["items"])
      if (auto added = add(item, line); !added) return added;
    return {};
  }

  Result<void> add_node(Json node) {
    drop_server_fields(node);
    manifests_.nodes.push_back(node.dump(-1, ' ', false, Json::error_handler_t::replace));
    return {};
  }

  Result<void> add_pod(Json pod) {
    drop_server_fields(pod);
    if (text_at(pod, "/metadata/namespace").empty()) pod["metadata"]["namespace"] = "default";
    manifests_.pods.push_back(pod.dump(-1, ' ', false, Json::error_handler_t::replace));
    return {};
  }

  static std::optional<std::int64_t> count_at(const Json& object, const char* pointer,
                                              std::int64_t absent) {
    const Json::json_pointer where(pointer);
    if (!object.contains(where) || object[where].is_null()) return absent;
    if (!object[where].is_number_integer()) return std::nullopt;
    return std::clamp<std::int64_t>(object[where].get<std::int64_t>(), 0,
                                    static_cast<std::int64_t>(kSimObjectsMax));
  }

  static std::optional<std::int64_t> copies(const Json& object, const std::string& kind) {
    if (kind != "Job") return count_at(object, "/spec/replicas", 1);
    // The Job of a dump may have ended, or need fewer pods than at first.
    if (!text_at(object, "/status/completionTime").empty() || has_failed(object)) return 0;
    const auto parallelism = count_at(object, "/spec/parallelism", 1);
    const auto completions = count_at(object, "/spec/completions", kSimObjectsMax);
    const auto succeeded = count_at(object, "/status/succeeded", 0);
    if (!parallelism || !completions || !succeeded) return std::nullopt;
    return std::min(*parallelism, std::max<std::int64_t>(*completions - *succeeded, 0));
  }

  static bool has_failed(const Json& job) {
    const Json::json_pointer where("/status/conditions");
    if (!job.contains(where) || !job[where].is_array()) return false;
    return std::ranges::any_of(job[where], [](const Json& condition) {
      return text_at(condition, "/type") == "Failed" && text_at(condition, "/status") == "True";
    });
  }

  Result<void> add_template(const Json& object, const std::string& kind, const Location& location) {
    const bool known =
        kind == "Deployment" || kind == "ReplicaSet" || kind == "StatefulSet" || kind == "Job";
    if (!known)
      return at(location, "kind is \"" + kind +
                              "\", expected Node, Pod, List, Deployment, ReplicaSet, StatefulSet "
                              "or Job");
    const Json::json_pointer where("/spec/template");
    if (!object.contains(where) || !object[where].is_object())
      return at(location, "spec.template of a " + kind + " is missing, expected a pod template");
    const auto count = copies(object, kind);
    if (!count) return at(location, "the number of pods of a " + kind + " is not a whole number");
    for (std::int64_t i = 0; i < *count; ++i)
      if (auto added = add(pod_of(object, object[where], i), location.line); !added) return added;
    return {};
  }

  static Json pod_of(const Json& owner, Json pod, std::int64_t ordinal) {
    pod["apiVersion"] = "v1";
    pod["kind"] = "Pod";
    pod["metadata"]["name"] = text_at(owner, "/metadata/name") + "-" + std::to_string(ordinal);
    pod["metadata"]["namespace"] = text_at(owner, "/metadata/namespace");
    return pod;
  }

  const std::string& source_;
  Manifests manifests_;
};

}  // namespace

Result<Manifests> read_manifests(std::string_view yaml, const std::string& source) {
  try {
    Collector collector(source);
    std::size_t values_left = yaml.size() + 1;
    for (const YAML::Node& document : YAML::LoadAll(std::string(yaml))) {
      Json json;
      if (auto read = to_json(document, source, 0, values_left, json); !read) return read.error();
      if (auto added = collector.add(json, document.Mark().line + 1); !added) return added.error();
    }
    return collector.take();
  } catch (const YAML::Exception& problem) {
    return at({source, problem.mark.line + 1}, "not YAML: " + problem.msg);
  } catch (const Json::exception& problem) {
    return error(source + ": not a Kubernetes object: " + problem.what());
  }
}

Result<Manifests> read_manifest_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error("cannot read " + path + ": " + std::strerror(errno));
  std::string text(kSimManifestBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && !file.eof())) return error("cannot read " + path);
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kSimManifestBytesMax)
    return error(path + " is larger than " + std::to_string(kSimManifestBytesMax) + " bytes");
  return read_manifests(text, path);
}

}  // namespace mgpu::sim
