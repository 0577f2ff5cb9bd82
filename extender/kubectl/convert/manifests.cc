#include "extender/kubectl/convert/manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/kube/objects/manifest.h"
#include "common/yaml/write.h"
#include "extender/kubectl/convert/limits.h"

namespace mgpu::kubectl::convert {
namespace {

using yaml::Value;

struct RewrittenPod {
  Value& place;
  Pod before;
  Pod after;
};

// The first of `names` that is a key somewhere in `value`; empty for none.
std::string key_in(const Value& value, const std::vector<std::string>& names) {
  for (const yaml::Key& key : value.keys) {
    if (std::ranges::find(names, key.text) != names.end()) return key.text;
  }
  for (const Value& inner : value.items) {
    auto found = key_in(inner, names);
    if (!found.empty()) return found;
  }
  return "";
}

Result<kube::StringMap> read_texts(const Value& owner, const std::string& name) {
  kube::StringMap texts;
  const Value& map = owner[name];
  if (!map.is_map() && !map.is_null()) return error(fmt::format("{} is not a map", name));
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    if (map.items[i].is_null()) continue;
    if (!map.items[i].is_text()) {
      return error(fmt::format("{} {} is not a number or a text", name, map.keys[i].text));
    }
    texts[map.keys[i].text] = map.items[i].text;
  }
  return texts;
}

Result<Container> read_foreign_container(const Value& value) {
  const auto limits = read_texts(value["resources"], "limits");
  if (!limits) return limits.error();
  const auto requests = read_texts(value["resources"], "requests");
  if (!requests) return requests.error();
  return Container{value.text_of("name"), *limits, *requests};
}

// The containers in the order of Pod::containers.
std::vector<Value*> containers_in(Value& pod) {
  std::vector<Value*> all;
  Value* const spec = pod.find("spec");
  for (const char* name : {"containers", "initContainers"}) {
    Value* const list = spec == nullptr ? nullptr : spec->find(name);
    if (list == nullptr || !list->is_list()) continue;
    for (Value& container : list->items) all.push_back(&container);
  }
  return all;
}

Result<Pod> read_foreign_pod(Value& value) {
  Pod pod;
  auto annotations = read_texts(value["metadata"], "annotations");
  if (!annotations) return annotations.error();
  auto labels = read_texts(value["metadata"], "labels");
  if (!labels) return labels.error();
  pod.annotations = *std::move(annotations);
  pod.labels = *std::move(labels);
  const Value& spec = std::as_const(value)["spec"];
  pod.scheduler = spec.text_of("schedulerName");
  const Value& apps = spec["containers"];
  pod.apps = apps.is_list() ? apps.items.size() : 0;
  for (const Value* one : containers_in(value)) {
    auto container = read_foreign_container(*one);
    if (!container) {
      return error(
          fmt::format("container \"{}\": {}", one->text_of("name"), container.error().message));
    }
    pod.containers.push_back(*std::move(container));
  }
  return pod;
}

// The map `name` of `owner`, which is added if it is not there, or null.
Value& map_in(Value& owner, const std::string& name) {
  Value* const found = owner.find(name);
  if (found != nullptr && found->is_map()) return *found;
  return owner.set(name, {.kind = Value::Kind::kMap});
}

// Makes the map `name` of `owner` have the texts in `after` instead of those in `before`.
void set_texts(Value& owner, const std::string& name, const kube::StringMap& before,
               const kube::StringMap& after) {
  if (before == after) return;
  Value& map = map_in(owner, name);
  for (const auto& [key, value] : before) {
    if (!after.contains(key)) map.remove(key);
  }
  for (const auto& [key, value] : after) {
    const auto old = before.find(key);
    if (old == before.end() || old->second != value) map.set(key, yaml::quoted(value));
  }
  if (map.keys.empty()) owner.remove(name);
}

void write_foreign_pod(const RewrittenPod& pod) {
  if (pod.before.annotations != pod.after.annotations) {
    set_texts(map_in(pod.place, "metadata"), "annotations", pod.before.annotations,
              pod.after.annotations);
  }
  const auto containers = containers_in(pod.place);
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const Container& before = pod.before.containers[i];
    const Container& after = pod.after.containers[i];
    if (before.limits == after.limits && before.requests == after.requests) continue;
    Value& resources = map_in(*containers[i], "resources");
    set_texts(resources, "limits", before.limits, after.limits);
    set_texts(resources, "requests", before.requests, after.requests);
  }
  if (pod.before.scheduler != pod.after.scheduler) {
    map_in(pod.place, "spec").set("schedulerName", yaml::quoted(pod.after.scheduler));
  }
}

class Conversion {
 public:
  explicit Conversion(const Settings& settings) : settings_(settings) {}

  void add(const kube::ManifestObject& object) {
    if (object.pod != nullptr) return add_pod(object.name(), *object.pod);
    const std::string key = key_in(*object.object, foreign_resources());
    if (key.empty()) return;
    refuse(object.name(), fmt::format("has {}, but this kind of object is not converted", key));
  }

  Converted take() {
    if (result_.refusals.empty()) {
      for (const RewrittenPod& pod : pods_) write_foreign_pod(pod);
    }
    return std::move(result_);
  }

 private:
  void add_pod(const std::string& where, Value& place) {
    auto before = read_foreign_pod(place);
    if (!before) return refuse(where, before.error().message);
    Pod after = *before;
    const auto changes = rewrite(after, settings_);
    if (!changes) return refuse(where, changes.error().message);
    for (const std::string& change : *changes) {
      result_.changes.push_back(fmt::format("{}: {}", where, change));
    }
    pods_.push_back({place, *std::move(before), std::move(after)});
  }

  void refuse(const std::string& where, const std::string& why) {
    if (result_.refusals.size() < kRefusalsMax) {
      result_.refusals.push_back(fmt::format("{}: {}", where, why));
    }
  }

  const Settings& settings_;
  std::vector<RewrittenPod> pods_;
  Converted result_;
};

}  // namespace

Result<Converted> convert_manifests(const std::string& text, const Settings& settings) {
  const auto manifest = kube::read_manifest(text);
  if (!manifest) return manifest.error();
  Conversion conversion(settings);
  for (const kube::ManifestObject& object : manifest->objects) conversion.add(object);
  Converted converted = conversion.take();
  converted.text = text;
  if (converted.changes.empty() || !converted.refusals.empty()) return converted;
  auto written = yaml::write_documents(manifest->documents);
  if (!written) return written.error();
  converted.text = *std::move(written);
  return converted;
}

}  // namespace mgpu::kubectl::convert
