#include "common/kube/memory/patch.h"

#include <algorithm>
#include <optional>

#include "common/kube/memory/limits.h"

namespace mgpu::kube {
namespace {

// Throws what nlohmann throws where the operation is none or does not apply. `budget` is what may
// still be copied, in bytes: copies of copies grow without end.
bool apply_operation(Json& object, const Json& operation, std::size_t& budget) {
  const std::string op = text_at(operation, "op");
  const std::string path = text_at(operation, "path");
  const bool transfers = op == "move" || op == "copy";
  const Json& value = transfers ? object.at(Json::json_pointer(text_at(operation, "from")))
                                : member(operation, "value");
  const std::size_t copied = transfers ? value.dump().size() : 0;
  if (copied > budget) return false;
  budget -= copied;
  // Depth stays within the bound whatever a patch stacks up: what writes JSON is recursive.
  const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
  if (depth > kJsonDepthMax || deeper_than(value, kJsonDepthMax - depth)) {
    return false;
  }
  // nlohmann asserts that a parent is an object or an array where it adds, and removes nothing from
  // others without a word.
  const Json::json_pointer pointer(path);
  if (!pointer.empty() && !object.at(pointer.parent_pointer()).is_structured()) return false;
  object.patch_inplace(Json::array({operation}));
  return true;
}

bool apply_operations(Json& object, const Json& patch) {
  std::size_t budget = kMemoryApiBodyBytesMax;
  try {
    return std::all_of(patch.begin(), patch.end(), [&](const Json& operation) {
      return apply_operation(object, operation, budget);
    });
  } catch (const Json::exception&) {
    return false;
  }
}

std::optional<Refusal> apply_json_patch(Json& object, const Json& patch) {
  if (!patch.is_array()) return bad_request("error decoding patch: a JSON patch is an array");
  if (apply_operations(object, patch)) return {};
  return Refusal{.code = 422,
                 .reason = "Invalid",
                 .message = "the server rejected our request due to an error in our request"};
}

// kubernetes core/v1 types.go: conditions have patchStrategy merge, patchMergeKey type.
std::optional<Refusal> merge_condition(Json& conditions, const Json& patch) {
  const std::string type = text_at(patch, "type");
  if (type.empty()) {
    return Refusal{.code = 500, .message = "map does not contain declared merge key: type"};
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
  return {};
}

std::optional<Refusal> apply_strategic_patch(Json& object, Json patch) {
  Json changes = member_at(patch, "status.conditions");
  if (changes.is_array()) patch["status"].erase("conditions");
  object.merge_patch(patch);
  if (!changes.is_array() || changes.empty()) return {};
  Json& conditions = object["status"]["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  for (const auto& change : changes) {
    if (const auto refusal = merge_condition(conditions, change)) return refusal;
  }
  return {};
}

}  // namespace

std::optional<Refusal> apply_patch(Json& object, std::string_view content_type,
                                   std::string_view body) {
  const bool is_json_patch = content_type == "application/json-patch+json";
  const bool is_strategic = content_type == "application/strategic-merge-patch+json";
  if (!is_json_patch && !is_strategic && content_type != "application/merge-patch+json") {
    return Refusal{
        .code = 415, .reason = "UnsupportedMediaType", .message = "415: Unsupported Media Type"};
  }
  const auto patch = read_json(body);
  if (!patch) return bad_request("error decoding patch: it must be JSON of moderate depth");
  if (is_json_patch) return apply_json_patch(object, *patch);
  if (!patch->is_object()) return bad_request("error decoding patch: a merge patch is an object");
  if (is_strategic) return apply_strategic_patch(object, *patch);
  object.merge_patch(*patch);
  return {};
}

}  // namespace mgpu::kube
