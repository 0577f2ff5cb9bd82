// apply_patch of object.h.
#include <algorithm>

#include "bench/apiserver/object.h"

namespace mgpu::kube {
namespace {

// kubernetes core/v1 types.go: conditions have patchStrategy merge, patchMergeKey type.
void merge_condition(Json& conditions, const Json& patch) {
  const std::string type = text_at(patch, "type");
  if (type.empty()) {
    throw Refusal{.code = 500, .message = "map does not contain declared merge key: type"};
  }
  const auto found = std::find_if(conditions.begin(), conditions.end(), [&](const Json& condition) {
    return text_at(condition, "type") == type;
  });
  if (text_at(patch, "$patch") == "delete") {
    if (found != conditions.end()) conditions.erase(found);
  } else if (found != conditions.end()) {
    found->merge_patch(patch);
  } else {
    conditions.push_back(patch);
  }
}

void apply_strategic_patch(Json& object, Json patch) {
  const Json changes = member_at(patch, "status.conditions");
  if (changes.is_array()) patch["status"].erase("conditions");
  object.merge_patch(patch);
  if (!changes.is_array() || changes.empty()) return;
  Json& conditions = object["status"]["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  for (const auto& change : changes) merge_condition(conditions, change);
}

}  // namespace

void apply_patch(Json& object, std::string_view content_type, std::string_view body) {
  const bool is_strategic = content_type == "application/strategic-merge-patch+json";
  if (!is_strategic && content_type != "application/merge-patch+json") {
    throw Refusal{
        .code = 415, .reason = "UnsupportedMediaType", .message = "415: Unsupported Media Type"};
  }
  const Json patch = read_json(body);
  if (patch.is_discarded()) {
    throw bad_request("error decoding patch: it must be JSON of moderate depth");
  }
  if (!patch.is_object()) throw bad_request("error decoding patch: a merge patch is an object");
  if (is_strategic) return apply_strategic_patch(object, patch);
  object.merge_patch(patch);
}

}  // namespace mgpu::kube
