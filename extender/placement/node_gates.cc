#include "extender/placement/node_gates.h"

#include <algorithm>
#include <functional>
#include <string>

#include "extender/placement/limits.h"

namespace mgpu::extender {
namespace {

constexpr const char* kCordonTaint = "node.kubernetes.io/unschedulable";

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

bool is_tolerated(const kube::Taint& taint, const kube::Toleration& one) {
  if (!one.effect.empty() && one.effect != taint.effect) return false;
  if (!one.key.empty() && one.key != taint.key) return false;
  const bool equal = one.op.empty() || one.op == "Equal";
  return !equal || one.value == taint.value;
}

bool is_met(const kube::LabelRequirement& one, const NodeGates& gates) {
  const auto has_value = [&](const std::string& value) {
    return has(gates, hash_of(one.key, value));
  };
  if (one.op == "In") return std::ranges::any_of(one.values, has_value);
  if (one.op == "NotIn") return std::ranges::none_of(one.values, has_value);
  if (one.op == "DoesNotExist") return !has(gates, hash_of(one.key));
  return has(gates, hash_of(one.key));  // Exists, Gt, Lt
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
  }
  std::ranges::sort(gates.labels);
  for (const kube::Taint& taint : node.taints) {
    if (taint.effect != "PreferNoSchedule") gates.taints.push_back(taint);
  }
  if (node.unschedulable) {
    gates.taints.push_back(
        {.key = kCordonTaint, .value = "", .effect = "NoSchedule", .time_added = ""});
  }
  return gates;
}

bool may_enter(const kube::NodeRules& rules, std::string_view node, const NodeGates& gates) {
  if (texts_of(rules) > kNodeRuleTextsMax) return true;
  const auto is_kept_out = [&](const kube::Taint& taint) {
    return std::ranges::none_of(rules.tolerations,
                                [&](const auto& one) { return is_tolerated(taint, one); });
  };
  const auto has_label = [&](const auto& label) {
    return has(gates, hash_of(label.first, label.second));
  };
  const auto is_met_here = [&](const kube::NodeTerm& term) { return is_met(term, node, gates); };
  return std::ranges::none_of(gates.taints, is_kept_out) &&
         std::ranges::all_of(rules.selector, has_label) &&
         (!rules.required || std::ranges::any_of(*rules.required, is_met_here));
}

}  // namespace mgpu::extender
