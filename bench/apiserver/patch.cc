// apply_patch of object.h.
#include <algorithm>

#include "bench/apiserver/object.h"

namespace mgpu::kube {
namespace {

// True where `json` has more than `levels` levels of objects and arrays.
bool deeper_than(const Json& json, std::size_t levels) {
  if (!json.is_structured()) return false;
  return levels == 0 || std::any_of(json.begin(), json.end(), [&](const Json& child) {
           return deeper_than(child, levels - 1);
         });
}

// False, or an exception of nlohmann's, where the operation is not valid or does not apply.
// `budget` is the number of bytes that may still be copied: copies of copies grow exponentially.
bool apply_operation(Json& object, const Json& operation, std::size_t& budget) {
  const std::string op = text_at(operation, "op");
  const std::string path = text_at(operation, "path");
  const bool transfers = op == "move" || op == "copy";
  const Json& value = transfers ? object.at(Json::json_pointer(text_at(operation, "from")))
                                : member(operation, "value");
  const std::size_t copied = transfers ? value.dump().size() : 0;
  if (copied > budget) return false;
  budget -= copied;
  // The depth of the object stays limited, since writing JSON is recursive.
  const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
  if (depth > kJsonDepthMax || deeper_than(value, kJsonDepthMax - depth)) return false;
  // Where the parent is neither an object nor an array, nlohmann asserts in an addition and ignores
  // a removal.
  const Json::json_pointer pointer(path);
  if (!pointer.empty() && !object.at(pointer.parent_pointer()).is_structured()) return false;
  object.patch_inplace(Json::array({operation}));
  return true;
}

void apply_json_patch(Json& object, const Json& patch) {
  if (!patch.is_array()) throw bad_request("error decoding patch: a JSON patch is an array");
  std::size_t budget = kMemoryApiBodyBytesMax;
  bool applied = true;
  try {
    for (const Json& operation : patch) {
      applied = applied && apply_operation(object, operation, budget);
    }
  } catch (const Json::exception&) {
    applied = false;
  }
  if (applied) return;
  throw Refusal{.code = 422,
                .reason = "Invalid",
                .message = "the server rejected our request due to an error in our request"};
}

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
  const bool is_json_patch = content_type == "application/json-patch+json";
  const bool is_strategic = content_type == "application/strategic-merge-patch+json";
  if (!is_json_patch && !is_strategic && content_type != "application/merge-patch+json") {
    throw Refusal{
        .code = 415, .reason = "UnsupportedMediaType", .message = "415: Unsupported Media Type"};
  }
  const Json patch = read_json(body);
  if (patch.is_discarded()) {
    throw bad_request("error decoding patch: it must be JSON of moderate depth");
  }
  if (is_json_patch) return apply_json_patch(object, patch);
  if (!patch.is_object()) throw bad_request("error decoding patch: a merge patch is an object");
  if (is_strategic) return apply_strategic_patch(object, patch);
  object.merge_patch(patch);
}

}  // namespace mgpu::kube
