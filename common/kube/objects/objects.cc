#include "common/kube/objects/objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/text.h"

namespace mgpu::kube {
namespace {

// kubernetes apimachinery pkg/labels/selector.go, Requirement.Matches: an absent key satisfies
// NotIn.
bool is_true(const LabelRequirement& term, const StringMap& labels) {
  const auto label = labels.find(term.key);
  const bool present = label != labels.end();
  const auto listed = [&] {
    return present && std::ranges::find(term.values, label->second) != term.values.end();
  };
  if (term.op == "In") return listed();
  if (term.op == "NotIn") return !listed();
  if (term.op == "Exists") return present;
  if (term.op == "DoesNotExist") return !present;
  return false;
}

}  // namespace

bool matches(const LabelSelector& selector, const StringMap& labels) {
  const auto equal = [&](const auto& wanted) {
    const auto label = labels.find(wanted.first);
    return label != labels.end() && label->second == wanted.second;
  };
  return std::ranges::all_of(selector.match_labels, equal) &&
         std::ranges::all_of(selector.match_expressions,
                             [&](const LabelRequirement& term) { return is_true(term, labels); });
}

Result<WatchLine::Kind> kind_of_event(std::string_view type) {
  using Kind = WatchLine::Kind;
  if (type == "ADDED") return Kind::kAdded;
  if (type == "MODIFIED") return Kind::kModified;
  if (type == "DELETED") return Kind::kDeleted;
  if (type == "BOOKMARK") return Kind::kBookmark;
  if (type == "ERROR") return Kind::kError;
  return error(fmt::format("type must be ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, is {}",
                           in_quotes(type)));
}

}  // namespace mgpu::kube
