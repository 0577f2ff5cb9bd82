#include "extender/placement/node_gates.h"

#include <algorithm>
#include <functional>
#include <string>

#include "common/base/text.h"
#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

// Which a pod tolerates that may be placed on a cordoned node.
const kube::Taint kCordonTaint{.key = "node.kubernetes.io/unschedulable",
                               .value = "",
                               .effect = "NoSchedule",
                               .time_added = ""};

std::uint64_t hash_of(const std::string& text) {
  return std::hash<std::string>()(text);
}

// A key has no '='.
std::uint64_t hash_of(const std::string& key, const std::string& value) {
  return hash_of(key + "=" + value);
}

bool has(const NodeGates& gates, std::uint64_t hash) {
  return std::ranges::binary_search(gates.labels, hash);
}

// Compares by the operators Gt and Lt.
bool compares(const std::string& op, std::optional<std::int64_t> left,
              std::optional<std::int64_t> right) {
  return left && right && (op == "Gt" ? *left > *right : *left < *right);
}

bool is_tolerated(const kube::Taint& taint, const kube::Toleration& one) {
  if (!one.effect.empty() && one.effect != taint.effect) return false;
  if (!one.key.empty() && one.key != taint.key) return false;
  if (one.op.empty() || one.op == "Equal") return one.value == taint.value;
  return one.op == "Exists" || compares(one.op, parse_number<std::int64_t>(taint.value),
                                        parse_number<std::int64_t>(one.value));
}

bool is_tolerated(const kube::Taint& taint, const kube::NodeRules& rules) {
  return std::ranges::any_of(rules.tolerations,
                             [&](const auto& one) { return is_tolerated(taint, one); });
}

std::optional<std::int64_t> number_of(const NodeGates& gates, std::uint64_t key) {
  const auto at =
      std::ranges::lower_bound(gates.numbers, key, {}, [](const auto& one) { return one.first; });
  return at != gates.numbers.end() && at->first == key ? std::optional(at->second) : std::nullopt;
}

bool is_met(const kube::LabelRequirement& one, const NodeGates& gates) {
  const auto has_value = [&](const std::string& value) {
    return has(gates, hash_of(one.key, value));
  };
  if (one.op == "In") return std::ranges::any_of(one.values, has_value);
  if (one.op == "NotIn") return std::ranges::none_of(one.values, has_value);
  if (one.op == "DoesNotExist") return !has(gates, hash_of(one.key));
  if (one.op == "Exists") return has(gates, hash_of(one.key));
  return one.values.size() == 1 && compares(one.op, number_of(gates, hash_of(one.key)),
                                            parse_number<std::int64_t>(one.values[0]));
}

bool is_met(const kube::LabelRequirement& one, std::string_view node) {
  const bool named = std::ranges::find(one.values, node) != one.values.end();
  return one.op == "NotIn" ? !named : named;
}

bool is_met(const kube::NodeTerm& term, std::string_view node, const NodeGates& gates) {
  if (term.labels.empty() && term.fields.empty()) return false;
  return std::ranges::all_of(term.labels, [&](const auto& one) { return is_met(one, gates); }) &&
         std::ranges::all_of(term.fields, [&](const auto& one) { return is_met(one, node); });
}

std::size_t texts_of(const std::vector<kube::LabelRequirement>& requirements) {
  std::size_t texts = requirements.size();
  for (const kube::LabelRequirement& one : requirements) texts += one.values.size();
  return texts;
}

std::size_t texts_of(const kube::NodeRules& rules) {
  std::size_t texts = rules.selector.size() + rules.tolerations.size();
  if (!rules.required) return texts;
  for (const kube::NodeTerm& term : *rules.required)
    texts += 1 + texts_of(term.labels) + texts_of(term.fields);
  return texts;
}

}  // namespace

NodeGates gates_of(const kube::Node& node) {
  NodeGates gates;
  for (const auto& [key, value] : node.metadata.labels) {
    gates.labels.push_back(hash_of(key));
    gates.labels.push_back(hash_of(key, value));
    if (const auto number = parse_number<std::int64_t>(value))
      gates.numbers.emplace_back(hash_of(key), *number);
  }
  std::ranges::sort(gates.labels);
  std::ranges::sort(gates.numbers);
  for (const kube::Taint& taint : node.taints) {
    if (taint.effect != "PreferNoSchedule") gates.taints.push_back(taint);
  }
  gates.cordoned = node.unschedulable;
  return gates;
}

std::string_view sentence(Gate gate) {
  if (gate == Gate::kCordon) return "node(s) were unschedulable";
  if (gate == Gate::kTaint) return "node(s) had untolerated taint(s)";
  return "node(s) didn't match Pod's node affinity/selector";
}

bool are_read(const kube::NodeRules& rules) {
  return texts_of(rules) <= kNodeRuleTextsMax;
}

std::optional<Gate> gate_for(const kube::NodeRules& rules, std::string_view node,
                             const NodeGates& gates) {
  if (!are_read(rules)) return {};
  const auto has_label = [&](const auto& label) {
    return has(gates, hash_of(label.first, label.second));
  };
  const auto is_met_here = [&](const kube::NodeTerm& term) { return is_met(term, node, gates); };
  const auto tolerates = [&](const kube::Taint& taint) { return is_tolerated(taint, rules); };
  if (gates.cordoned && !is_tolerated(kCordonTaint, rules)) return Gate::kCordon;
  if (!std::ranges::all_of(gates.taints, tolerates)) return Gate::kTaint;
  if (!std::ranges::all_of(rules.selector, has_label)) return Gate::kAffinity;
  if (!rules.required || std::ranges::any_of(*rules.required, is_met_here)) return {};
  return Gate::kAffinity;
}

}  // namespace mgpu::extender
