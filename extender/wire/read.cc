#include <map>
#include <optional>

#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "extender/wire/json.h"
#include "extender/wire/wire.h"

// The messages of bind and preempt are small or rare: each is parsed as a whole.

namespace mgpu::extender {
namespace {

namespace dom = simdjson::dom;

Result<dom::object> parse_object(dom::parser& parser, std::string_view body) {
  if (body.empty()) return malformed(simdjson::EMPTY);
  dom::element root;
  if (const auto code = parser.parse(body.data(), body.size()).get(root)) return malformed(code);
  dom::object object;
  if (root.get(object)) return error("request is not a JSON object");
  return object;
}

// The last member of that name, as encoding/json reads it; nothing if it is absent or null.
std::optional<dom::element> member(const dom::object& object, std::string_view lower) {
  std::optional<dom::element> found;
  for (const dom::key_value_pair field : object) {
    if (equal_fold(field.key, lower)) found = field.value;
  }
  if (found && found->is_null()) return std::nullopt;
  return found;
}

Error unexpected_element(std::string_view field, const dom::element& found,
                         std::string_view expected) {
  return unexpected(field, simdjson::minify(found), expected);
}

Result<std::string> required_text(const dom::object& object, std::string_view name) {
  const auto found = member(object, lower_case(name));
  if (!found) return error("request has no " + std::string(name));
  std::string_view text;
  if (found->get(text)) return unexpected_element(name, *found, "a string");
  if (text.empty()) return error(std::string(name) + " is empty");
  return std::string(text);
}

Result<PodUid> read_victim(const std::string& field, const dom::element& victim) {
  dom::object object;
  if (victim.get(object)) return unexpected_element(field, victim, "a pod");
  const auto found = member(object, "uid");
  std::string_view uid;
  if (!found || found->get(uid) || uid.empty()) return error(field + " has no uid");
  return PodUid(uid);
}

Result<std::vector<PodUid>> read_victim_pods(const std::string& field, const dom::element& pods) {
  dom::array array;
  if (pods.get(array)) return unexpected_element(field, pods, "a list of pods");
  std::vector<PodUid> victims;
  for (const dom::element victim : array) {
    if (victim.is_null()) continue;
    auto uid = read_victim(element_name(field, victims.size()), victim);
    if (!uid) return uid.error();
    victims.push_back(std::move(*uid));
  }
  return victims;
}

Result<NodeVictims> read_node_victims(std::string_view node, const dom::element& value) {
  NodeVictims victims{NodeName(node), {}, 0};
  if (value.is_null()) return victims;
  const std::string field = "victims of node " + in_quotes(node);
  dom::object object;
  if (value.get(object)) return unexpected_element(field, value, "an object");
  if (const auto pods = member(object, "pods")) {
    auto read = read_victim_pods(field + ": Pods", *pods);
    if (!read) return read.error();
    victims.victims = std::move(*read);
  }
  const auto violations = member(object, "numpdbviolations");
  if (violations && violations->get(victims.pdb_violations)) {
    return unexpected_element(field + ": NumPDBViolations", *violations, "a whole number");
  }
  return victims;
}

Result<std::vector<NodeVictims>> read_victims(const dom::element& value) {
  dom::object object;
  if (value.get(object)) {
    return unexpected_element("NodeNameToMetaVictims", value, "a map of victims by node");
  }
  std::map<std::string_view, NodeVictims> by_node;
  for (const dom::key_value_pair field : object) {
    auto victims = read_node_victims(field.key, field.value);
    if (!victims) return victims.error();
    by_node.insert_or_assign(field.key, std::move(*victims));
  }
  std::vector<NodeVictims> nodes;
  nodes.reserve(by_node.size());
  for (auto& [node, victims] : by_node) nodes.push_back(std::move(victims));
  return nodes;
}

Result<kube::Pod> read_pod_member(const dom::object& request) {
  const auto found = member(request, "pod");
  if (!found) return error("request has no Pod");
  if (!found->is_object()) return unexpected_element("Pod", *found, "an object");
  auto pod = kube::read_pod(simdjson::minify(*found));
  if (!pod) return error("Pod: " + pod.error().message);
  return pod;
}

}  // namespace

Result<BindingArgs> read_binding_args(std::string_view body) {
  dom::parser parser;
  auto request = parse_object(parser, body);
  if (!request) return request.error();
  auto name = required_text(*request, "PodName");
  if (!name) return name.error();
  auto name_space = required_text(*request, "PodNamespace");
  if (!name_space) return name_space.error();
  auto uid = required_text(*request, "PodUID");
  if (!uid) return uid.error();
  auto node = required_text(*request, "Node");
  if (!node) return node.error();
  return BindingArgs{PodRef{std::move(*name_space), std::move(*name)}, PodUid(std::move(*uid)),
                     NodeName(std::move(*node))};
}

Result<PreemptionArgs> read_preemption_args(std::string_view body) {
  dom::parser parser;
  auto request = parse_object(parser, body);
  if (!request) return request.error();
  auto pod = read_pod_member(*request);
  if (!pod) return pod.error();
  PreemptionArgs args{std::move(*pod), {}};
  const auto victims = member(*request, "nodenametometavictims");
  if (!victims) return args;
  auto nodes = read_victims(*victims);
  if (!nodes) return nodes.error();
  args.nodes = std::move(*nodes);
  return args;
}

}  // namespace mgpu::extender
