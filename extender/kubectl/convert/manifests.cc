#include "extender/kubectl/convert/manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/kube/objects/manifest.h"
#include "common/yaml/comments.h"
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

// The first text that `is_wanted` returns true for, among the keys and, with `values`, the values;
// empty for none.
template <class Wanted>
std::string text_in(const Value& value, bool values, const Wanted& is_wanted) {
  if (values && value.is_text() && is_wanted(value.text)) return value.text;
  for (const yaml::Key& key : value.keys) {
    if (is_wanted(key.text)) return key.text;
  }
  for (const Value& inner : value.items) {
    auto found = text_in(inner, values, is_wanted);
    if (!found.empty()) return found;
  }
  return "";
}

const OtherRequest* other_request(const std::string& text) {
  const auto found = std::ranges::find_if(
      other_requests(), [&](const OtherRequest& one) { return text.starts_with(one.begin); });
  return found == other_requests().end() ? nullptr : &*found;
}

// Whether a quota or a queue counts a resource by this text: "requests.nvidia.com/gpu".
bool counts_foreign(const std::string& text) {
  return std::ranges::any_of(foreign_resources(), [&](const std::string& name) {
    return text == name || text == "requests." + name || text == "limits." + name;
  });
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
  explicit Conversion(const ConvertOptions& options) : options_(options) {}

  void add(const kube::ManifestObject& object) {
    if (object.pod != nullptr) return add_pod(object.name(), *object.pod);
    const std::string key = key_in(*object.object, foreign_resources());
    if (!key.empty()) {
      return refuse(object.name(),
                    fmt::format("has {}, but this kind of object is not converted", key));
    }
    const std::string counted = text_in(*object.object, true, counts_foreign);
    if (counted.empty()) return;
    leave(object.name(), fmt::format("counts {}, which converted pods do not request; it is not "
                                     "converted",
                                     counted));
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
    const auto changes = rewrite(after, options_);
    if (!changes) return refuse(where, changes.error().message);
    add_left(where, place, !changes->empty(), after.scheduler);
    for (const std::string& change : *changes) {
      result_.changes.push_back(fmt::format("{}: {}", where, change));
    }
    pods_.push_back({place, *std::move(before), std::move(after)});
  }

  // What the pod has beside the requests that are converted.
  void add_left(const std::string& where, const Value& place, bool changed,
                const std::string& scheduler) {
    const std::string key = text_in(
        place, false, [](const std::string& text) { return other_request(text) != nullptr; });
    if (!key.empty()) {
      leave(where, fmt::format("{} of {} is not converted", key, other_request(key)->project));
    }
    const bool is_foreign =
        !scheduler.empty() && scheduler != "default-scheduler" && scheduler != options_.scheduler;
    if (changed && is_foreign) {
      leave(where, fmt::format("schedulerName {} stays, and only a kube-scheduler that calls the "
                               "extender gives the pod cards",
                               scheduler));
    }
    const Value& tolerations = place["spec"]["tolerations"];
    const bool tolerates = std::ranges::any_of(tolerations.items, [](const Value& one) {
      return one.text_of("key").empty() || one.text_of("key") == "nvidia.com/gpu";
    });
    if (changed && !tolerates) ++result_.without_toleration;
  }

  void refuse(const std::string& where, const std::string& why) {
    add_sentence(result_.refusals, where, why);
  }
  void leave(const std::string& where, const std::string& why) {
    add_sentence(result_.left, where, why);
  }
  static void add_sentence(std::vector<std::string>& sentences, const std::string& where,
                           const std::string& why) {
    if (sentences.size() < kRefusalsMax) sentences.push_back(fmt::format("{}: {}", where, why));
  }

  const ConvertOptions& options_;
  std::vector<RewrittenPod> pods_;
  Converted result_;
};

}  // namespace

Result<Converted> convert_manifests(const std::string& text, const ConvertOptions& options) {
  const auto manifest = kube::read_manifest(text);
  if (!manifest) return manifest.error();
  Conversion conversion(options);
  for (const kube::ManifestObject& object : manifest->objects) conversion.add(object);
  Converted converted = conversion.take();
  converted.text = text;
  if (converted.changes.empty() || !converted.refusals.empty()) return converted;
  const auto written = yaml::write_documents(manifest->documents);
  if (!written) return written.error();
  converted.text = yaml::with_comments(*written, text);
  return converted;
}

}  // namespace mgpu::kubectl::convert
