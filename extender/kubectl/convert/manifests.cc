#include "extender/kubectl/convert/manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "extender/kubectl/convert/limits.h"
#include "extender/kubectl/convert/yaml_text.h"

namespace mgpu::kubectl::convert {
namespace {

// A Pod, or a template of pods.
struct PodNode {
  std::string where;  // names the object
  YAML::Node node;
};

struct RewrittenPod {
  PodNode place;
  Pod before;
  Pod after;
};

std::string name_object(const YAML::Node& object) {
  const YAML::Node metadata = member_of(object, "metadata");
  std::string name = text_of(metadata, "name");
  if (name.empty()) name = text_of(metadata, "generateName");
  const std::string space = text_of(metadata, "namespace");
  return fmt::format("{} {}{}{}", text_of(object, "kind"), space, space.empty() ? "" : "/", name);
}

// Undefined for an object without pods.
YAML::Node pods_of(const YAML::Node& object) {
  const std::string kind = text_of(object, "kind");
  if (kind == "Pod") return object;
  if (kind == "PodTemplate") return member_of(object, "template");
  YAML::Node spec = member_of(object, "spec");
  if (kind == "CronJob")
    return member_of(member_of(member_of(spec, "jobTemplate"), "spec"), "template");
  for (const char* one :
       {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"}) {
    if (kind == one) return member_of(spec, "template");
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

// The first of `names` that is a key somewhere in `node`; empty for none.
std::string key_in(const YAML::Node& node, const std::vector<std::string>& names) {
  for (const auto& member : node) {
    if (node.IsMap() && std::ranges::find(names, member.first.Scalar()) != names.end()) {
      return member.first.Scalar();
    }
    const YAML::Node inner = node.IsMap() ? member.second : YAML::Node(member);
    if (inner.IsMap() || inner.IsSequence()) {
      auto found = key_in(inner, names);
      if (!found.empty()) return found;
    }
  }
  return "";
}

Result<kube::StringMap> read_texts(const YAML::Node& owner, const std::string& name) {
  kube::StringMap texts;
  const YAML::Node node = member_of(owner, name);
  if (!node.IsDefined() || node.IsNull()) return texts;
  if (!node.IsMap()) return error(fmt::format("{} is not a map", name));
  for (const auto& member : node) {
    if (member.second.IsNull()) continue;
    if (!member.second.IsScalar()) {
      return error(fmt::format("{} {} is not a number or a text", name, member.first.Scalar()));
    }
    texts[member.first.Scalar()] = member.second.Scalar();
  }
  return texts;
}

Result<Container> read_foreign_container(const YAML::Node& node) {
  const YAML::Node resources = member_of(node, "resources");
  const auto limits = read_texts(resources, "limits");
  if (!limits) return limits.error();
  const auto requests = read_texts(resources, "requests");
  if (!requests) return requests.error();
  return Container{text_of(node, "name"), *limits, *requests};
}

// The containers in the order of Pod::containers.
std::vector<YAML::Node> container_nodes(const YAML::Node& pod) {
  std::vector<YAML::Node> nodes;
  for (const char* list : {"containers", "initContainers"}) {
    const YAML::Node containers = member_of(member_of(pod, "spec"), list);
    if (!containers.IsDefined() || !containers.IsSequence()) continue;
    for (const auto& container : containers) nodes.push_back(container);
  }
  return nodes;
}

Result<Pod> read_foreign_pod(const YAML::Node& node) {
  Pod pod;
  const YAML::Node metadata = member_of(node, "metadata");
  auto annotations = read_texts(metadata, "annotations");
  if (!annotations) return annotations.error();
  auto labels = read_texts(metadata, "labels");
  if (!labels) return labels.error();
  pod.annotations = *std::move(annotations);
  pod.labels = *std::move(labels);
  const YAML::Node spec = member_of(node, "spec");
  pod.scheduler = text_of(spec, "schedulerName");
  const YAML::Node apps = member_of(spec, "containers");
  pod.apps = apps.IsDefined() && apps.IsSequence() ? apps.size() : 0;
  for (const YAML::Node& one : container_nodes(node)) {
    auto container = read_foreign_container(one);
    if (!container) {
      return error(
          fmt::format("container \"{}\": {}", text_of(one, "name"), container.error().message));
    }
    pod.containers.push_back(*std::move(container));
  }
  return pod;
}

// Writes members of maps. Their keys are in quotes where those of the object are, as in JSON.
class MemberWriter {
 public:
  explicit MemberWriter(const YAML::Node& object)
      : in_quotes_(object.begin() != object.end() && object.begin()->first.Tag() == "!") {}

  // The map `name` of `owner`, which is added if it is not there, or null.
  YAML::Node map_in(YAML::Node owner, const std::string& name) const {
    if (const YAML::Node found = member_of(owner, name); found.IsDefined() && found.IsMap()) {
      return found;
    }
    const YAML::Node added(YAML::NodeType::Map);
    set(owner, name, added);
    return added;
  }

  void set(YAML::Node owner, const std::string& name, const YAML::Node& value) const {
    if (member_of(owner, name).IsDefined()) {
      owner[name] = value;
    } else if (in_quotes_) {
      owner.force_insert(quoted(name), value);
    } else {
      owner.force_insert(name, value);
    }
  }

  // Makes the map `name` of `owner` have the texts in `after` instead of those in `before`.
  void set_texts(YAML::Node owner, const std::string& name, const kube::StringMap& before,
                 const kube::StringMap& after) const {
    if (before == after) return;
    YAML::Node map = map_in(owner, name);
    for (const auto& [key, value] : before) {
      if (!after.contains(key)) map.remove(key);
    }
    for (const auto& [key, value] : after) {
      const auto old = before.find(key);
      if (old == before.end() || old->second != value) set(map, key, quoted(value));
    }
    if (map.size() == 0) owner.remove(name);
  }

 private:
  bool in_quotes_;
};

void write_foreign_pod(const RewrittenPod& pod) {
  const YAML::Node& node = pod.place.node;
  const MemberWriter writer(node);
  if (pod.before.annotations != pod.after.annotations) {
    writer.set_texts(writer.map_in(node, "metadata"), "annotations", pod.before.annotations,
                     pod.after.annotations);
  }
  const auto nodes = container_nodes(node);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Container& before = pod.before.containers[i];
    const Container& after = pod.after.containers[i];
    if (before.limits == after.limits && before.requests == after.requests) continue;
    const YAML::Node resources = member_of(nodes[i], "resources");
    writer.set_texts(resources, "limits", before.limits, after.limits);
    writer.set_texts(resources, "requests", before.requests, after.requests);
  }
  if (pod.before.scheduler != pod.after.scheduler) {
    writer.set(member_of(node, "spec"), "schedulerName", quoted(pod.after.scheduler));
  }
}

class Conversion {
 public:
  explicit Conversion(const Settings& settings) : settings_(settings) {}

  void add(const YAML::Node& object) {
    if (text_of(object, "kind") == "List") {
      for (const auto& item : member_of(object, "items")) add(item);
      return;
    }
    const std::string where = name_object(object);
    const YAML::Node pods = pods_of(object);
    if (pods.IsDefined() && pods.IsMap()) return add_pod({where, pods});
    const std::string key = key_in(object, foreign_resources());
    if (key.empty()) return;
    refuse(where, fmt::format("has {}, but this kind of object is not converted", key));
  }

  Converted take() {
    if (result_.refusals.empty()) {
      for (const RewrittenPod& pod : pods_) write_foreign_pod(pod);
      for (const RewrittenPod& pod : pods_) check_written(pod);
    }
    return std::move(result_);
  }

 private:
  void add_pod(PodNode place) {
    auto before = read_foreign_pod(place.node);
    if (!before) return refuse(place.where, before.error().message);
    Pod after = *before;
    const auto changes = rewrite(after, settings_);
    if (!changes) return refuse(place.where, changes.error().message);
    for (const std::string& change : *changes) {
      result_.changes.push_back(fmt::format("{}: {}", place.where, change));
    }
    pods_.push_back({std::move(place), *std::move(before), std::move(after)});
  }

  // Objects that share values by an anchor may need different ones afterwards.
  void check_written(const RewrittenPod& pod) {
    const auto written = read_foreign_pod(pod.place.node);
    if (written && *written == pod.after) return;
    refuse(pod.place.where,
           "shares values with another object by an anchor; expected values of its own");
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
  const auto documents = read_documents(text);
  if (!documents) return documents.error();
  Conversion conversion(settings);
  for (const YAML::Node& document : *documents) {
    if (document.IsMap()) conversion.add(document);
  }
  Converted converted = conversion.take();
  converted.text = text;
  if (converted.changes.empty() || !converted.refusals.empty()) return converted;
  auto written = write_documents(*documents);
  if (!written) return written.error();
  converted.text = *std::move(written);
  return converted;
}

}  // namespace mgpu::kubectl::convert
