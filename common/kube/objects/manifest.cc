#include "common/kube/objects/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/files.h"
#include "common/base/text.h"
#include "common/kube/limits.h"
#include "common/yaml/read.h"

namespace mgpu::kube {
namespace {

using yaml::Value;

struct PodKind {
  std::string_view kind;
  std::vector<std::string_view> path;  // to the Pod or template
};

const std::vector<PodKind>& pod_kinds() {
  static const std::vector<PodKind> all = {{"Pod", {}},
                                           {"Deployment", {"spec", "template"}},
                                           {"ReplicaSet", {"spec", "template"}},
                                           {"StatefulSet", {"spec", "template"}},
                                           {"DaemonSet", {"spec", "template"}},
                                           {"ReplicationController", {"spec", "template"}},
                                           {"Job", {"spec", "template"}},
                                           {"CronJob", {"spec", "jobTemplate", "spec", "template"}},
                                           {"PodTemplate", {"template"}}};
  return all;
}

// Groups of others have a domain, and those with pods of Kubernetes have none: "apps/v1".
bool is_own_group(std::string_view api_version) {
  return api_version.substr(0, api_version.find('/')).find('.') == api_version.npos;
}

Value* at_path(Value* from, const std::vector<std::string_view>& path) {
  for (const std::string_view name : path) {
    if (from != nullptr) from = from->find(name);
  }
  return from != nullptr && from->is_map() ? from : nullptr;
}

Result<void> add(Value& object, std::size_t document, std::vector<ManifestObject>& objects) {
  if (object.is_null()) return {};
  if (!object.is_map()) {
    return error(fmt::format("line {}: has {}, expected a Kubernetes object", object.line,
                             object.is_list() ? "a list" : "a text"));
  }
  ManifestObject found{.object = &object, .document = document};
  if (is_own_group(object.text_of("apiVersion"))) found.kind = object.text_of("kind");
  if (!found.kind.ends_with("List")) {
    const auto known = std::ranges::find(pod_kinds(), found.kind, &PodKind::kind);
    found.has_pods = known != pod_kinds().end();
    if (found.has_pods) found.pod = at_path(&object, known->path);
    objects.push_back(std::move(found));
    return {};
  }
  Value* const items = object.find("items");
  if (items == nullptr || !items->is_list()) {
    return error(fmt::format("line {}: items of the {} is missing, expected a list of objects",
                             object.line, found.kind));
  }
  for (Value& item : items->items) {
    if (auto added = add(item, document, objects); !added) return added;
  }
  return {};
}

const std::string& name_in(const Value& metadata) {
  const std::string& name = metadata.text_of("name");
  return name.empty() ? metadata.text_of("generateName") : name;
}

// "Deployment team/web", "Job train- of batch.volcano.sh/v1alpha1"; an object without a name:
// "Service".
std::string described(const ManifestObject& object) {
  const Value& metadata = (*object.object)["metadata"];
  const std::string& kind = object.object->text_of("kind");
  const std::string& space = metadata.text_of("namespace");
  std::string text = kind.empty() ? "object" : kind;
  if (!name_in(metadata).empty()) {
    text += fmt::format(" {}{}{}", space, space.empty() ? "" : "/", name_in(metadata));
  }
  const bool is_foreign = object.kind.empty() && !kind.empty();
  return is_foreign ? text + " of " + object.object->text_of("apiVersion") : text;
}

Error problem_of(const ManifestObject& owner, std::string_view field, std::string_view expected) {
  return error(fmt::format("line {}: {}: {} is missing, expected {}", owner.object->line,
                           owner.name(), field, expected));
}

bool has_failed(const Value& job) {
  return std::ranges::any_of(job["status"]["conditions"].items, [](const Value& condition) {
    return condition.text_of("type") == "Failed" && condition.text_of("status") == "True";
  });
}

// -1 if it is no whole number.
std::int64_t number_in(const Value& map, std::string_view name, std::int64_t absent) {
  const Value& found = map[name];
  if (found.is_null()) return absent;
  return found.quoted ? -1 : parse_number<std::int64_t>(found.text).value_or(-1);
}

}  // namespace

std::string ManifestObject::name() const {
  const std::string text = described(*this);
  const bool has_name = !name_in((*object)["metadata"]).empty();
  return has_name ? text : fmt::format("{} in document {}", text, document);
}

Result<Manifest> read_manifest(std::string_view text) {
  auto documents = yaml::read_documents(text);
  if (!documents) return documents.error();
  Manifest manifest{.documents = *std::move(documents), .objects = {}};
  for (std::size_t i = 0; i < manifest.documents.size(); ++i) {
    if (auto added = add(manifest.documents[i], i + 1, manifest.objects); !added) {
      return added.error();
    }
  }
  return manifest;
}

Result<Value> pod_of(const ManifestObject& owner) {
  const Value& from = (*owner.object)["metadata"];
  if (name_in(from).empty()) return problem_of(owner, "metadata.name", "a name");
  if (owner.pod == nullptr) return problem_of(owner, "the template of pods", "a map");
  Value pod = *owner.pod;
  if (!pod["spec"].is_map()) return problem_of(owner, "the spec of the pod", "a map");
  pod.set("apiVersion", yaml::quoted("v1"));
  pod.set("kind", yaml::quoted("Pod"));
  if (!pod["metadata"].is_map()) pod.set("metadata", {.kind = Value::Kind::kMap});
  Value& metadata = *pod.find("metadata");
  metadata.set("name", yaml::quoted(name_in(from)));
  if (const Value* space = from.find("namespace")) metadata.set("namespace", *space);
  return pod;
}

Result<std::int64_t> pods_wanted(const ManifestObject& owner) {
  const bool is_cron_job = owner.kind == "CronJob";
  const Value& object = is_cron_job ? (*owner.object)["spec"]["jobTemplate"] : *owner.object;
  const Value& spec = object["spec"];
  const auto refuse = [&](std::string_view field) {
    return error(fmt::format("line {}: {}: spec.{} must be a whole number, is {}", spec.line,
                             owner.name(), field, in_quotes(spec[field].text)));
  };
  if (owner.kind == "Pod" || owner.kind == "DaemonSet" || owner.kind == "PodTemplate") return 1;
  if (!is_cron_job && owner.kind != "Job") {
    const std::int64_t replicas = number_in(spec, "replicas", 1);
    if (replicas < 0) return refuse("replicas");
    return replicas;
  }
  const std::int64_t parallelism = number_in(spec, "parallelism", 1);
  if (parallelism < 0) return refuse("parallelism");
  constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
  const std::int64_t completions = number_in(spec, "completions", kAny);
  if (completions < 0) return refuse("completions");
  // The Job of a dump may have ended, or need fewer pods than at first.
  const Value& status = object["status"];
  if (!status.text_of("completionTime").empty() || has_failed(object)) return 0;
  const std::int64_t succeeded = std::max<std::int64_t>(number_in(status, "succeeded", 0), 0);
  return std::clamp<std::int64_t>(completions - succeeded, 0, parallelism);
}

std::string not_read(const Manifest& manifest, std::string_view also_read) {
  std::vector<std::string> names;
  std::size_t count = 0;
  for (const ManifestObject& object : manifest.objects) {
    if (object.has_pods || (!also_read.empty() && object.kind == also_read)) continue;
    if (++count > kObjectsNamedMax) continue;
    names.push_back(fmt::format("{} (document {})", described(object), object.document));
  }
  if (count > names.size()) names.push_back(fmt::format("{} more", count - names.size()));
  return names.empty() ? "" : fmt::format("no pods are read of {}", fmt::join(names, ", "));
}

Result<std::string> read_manifest_file(const std::string& path) {
  return read_input(path, kManifestBytesMax);
}

}  // namespace mgpu::kube
