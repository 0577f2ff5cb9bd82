#include "extender/kubectl/manifest.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <optional>
#include <vector>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/kube/kubeconfig_json.h"
#include "extender/kubectl/convert/yaml_text.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

const Json* object_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? &*found : nullptr;
}

bool has_template(const std::string& kind) {
  for (const char* each :
       {"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job"}) {
    if (kind == each) return true;
  }
  return false;
}

// A Pod as the controller of `owner` would create it.
Json pod_of(const Json& owner, const Json& spec_template) {
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  pod["metadata"] = Json::object();
  if (const Json* metadata = object_in(spec_template, "metadata")) pod["metadata"] = *metadata;
  const Json* const of_owner = object_in(owner, "metadata");
  for (const char* name : {"name", "namespace"}) {
    const std::string text = of_owner == nullptr ? "" : text_in(*of_owner, name);
    if (!text.empty()) pod["metadata"][name] = text;
  }
  if (const Json* spec = object_in(spec_template, "spec")) pod["spec"] = *spec;
  return pod;
}

Result<Manifest> of_template(const std::string& kind, const Json& object) {
  const Json* const spec = object_in(object, "spec");
  const Json* const pods = spec == nullptr ? nullptr : object_in(*spec, "template");
  if (pods == nullptr) return error(fmt::format("the {} has no spec.template", kind));
  Manifest manifest{.kind = kind, .pod = pod_of(object, *pods)};
  const auto count = spec->find(kind == "Job" ? "parallelism" : "replicas");
  if (count == spec->end() || count->is_null()) return manifest;
  if (!count->is_number_integer() || count->get<std::int64_t>() < 0) {
    return error(fmt::format("the number of pods of the {} must be a whole number, is {}", kind,
                             in_quotes(count->dump())));
  }
  manifest.replicas = count->get<std::int64_t>();
  return manifest;
}

// Nothing for an object without pods.
Result<std::optional<Manifest>> of_object(const Json& object) {
  const std::string kind = text_in(object, "kind");
  if (kind == "Pod") return std::optional(Manifest{.kind = kind, .pod = object});
  std::optional<Manifest> manifest;
  if (kind == "CronJob") {
    const Json* const spec = object_in(object, "spec");
    const Json* const job = spec == nullptr ? nullptr : object_in(*spec, "jobTemplate");
    if (job == nullptr) return error("the CronJob has no spec.jobTemplate");
    Json with_name = *job;
    if (const Json* metadata = object_in(object, "metadata")) with_name["metadata"] = *metadata;
    auto read = of_template("Job", with_name);
    if (!read) return read.error();
    manifest = *std::move(read);
  } else if (has_template(kind)) {
    auto read = of_template(kind, object);
    if (!read) return read.error();
    manifest = *std::move(read);
  }
  return manifest;
}

}  // namespace

Result<Manifest> read_manifest(const std::string& text) try {
  std::optional<Manifest> found;
  if (convert::has_too_many_documents(text)) return error("has too many documents, or is not YAML");
  for (const YAML::Node& document : YAML::LoadAll(text)) {
    if (!document.IsMap()) continue;
    const auto json = kube::json_of(document);
    if (!json) return error("an object " + json.error().message);
    const Json object = Json::parse(*json, nullptr, false);
    if (!object.is_object()) continue;
    auto manifest = of_object(object);
    if (!manifest) return manifest.error();
    if (!*manifest) continue;
    if (found) {
      return error(fmt::format("has several objects with pods, a {} and a {}; expected one",
                               found->kind, (*manifest)->kind));
    }
    found = **std::move(manifest);
  }
  if (!found) return error("has no Pod, and no object with a template of pods");
  if (object_in(found->pod, "spec") == nullptr) {
    return error(fmt::format("the {} has no spec of a pod", found->kind));
  }
  return *found;
} catch (const std::exception& failure) {
  return error(fmt::format("is not YAML: {}", in_quotes(failure.what())));
}

Result<Manifest> load_manifest(const std::string& path) {
  const auto text = read_file(path == "-" ? "/dev/stdin" : path, kManifestBytesMax);
  if (!text) return error("--filename: " + text.error().message);
  auto manifest = read_manifest(*text);
  if (manifest) return manifest;
  return error(fmt::format("--filename: {}: {}", in_quotes(path), manifest.error().message));
}

}  // namespace mgpu::kubectl
