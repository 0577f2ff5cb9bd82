#include "common/kube/memory_patch.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "common/limits.h"

namespace mgpu::kube {
namespace {

using Pointer = std::vector<std::string>;

// "~1" is '/', "~0" is '~'. None: a stray '~'.
std::optional<std::string> read_token(std::string_view text) {
  std::string token;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '~') {
      token += text[i];
    } else if (++i < text.size() && (text[i] == '0' || text[i] == '1')) {
      token += text[i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return token;
}

std::optional<Pointer> read_pointer(const Json& text) {
  if (!text.is_string()) return std::nullopt;
  std::string_view rest = text.get_ref<const std::string&>();
  Pointer pointer;
  while (!rest.empty()) {
    if (rest[0] != '/') return std::nullopt;
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find('/'), rest.size());
    auto token = read_token(rest.substr(0, end));
    if (!token) return std::nullopt;
    pointer.push_back(*std::move(token));
    rest.remove_prefix(end);
  }
  return pointer;
}

// None: not an index of at most `size`.
std::optional<std::size_t> read_index(const std::string& token, std::size_t size) {
  std::size_t index = 0;
  const auto end = token.data() + token.size();
  const auto [read, code] = std::from_chars(token.data(), end, index);
  if (code != std::errc() || read != end || index > size) return std::nullopt;
  return index;
}

Json* child(Json& parent, const std::string& token) {
  if (parent.is_object()) {
    const auto found = parent.find(token);
    return found == parent.end() ? nullptr : &*found;
  }
  if (!parent.is_array()) return nullptr;
  const auto index = read_index(token, parent.size());
  return index && *index < parent.size() ? &parent[*index] : nullptr;
}

Json* find(Json& root, const Pointer& pointer, std::size_t depth) {
  Json* at = &root;
  for (std::size_t i = 0; i < depth && at != nullptr; ++i) at = child(*at, pointer[i]);
  return at;
}

Json* find(Json& root, const Pointer& pointer) {
  return find(root, pointer, pointer.size());
}

// Depth stays within the bound whatever a patch stacks up: what writes JSON is recursive.
bool fits(const Pointer& pointer, const Json& value) {
  return pointer.size() <= limits::kJsonDepthMax &&
         !deeper_than(value, limits::kJsonDepthMax - pointer.size());
}

bool add(Json& root, const Pointer& pointer, Json value) {
  if (!fits(pointer, value)) return false;
  if (pointer.empty()) {
    root = std::move(value);
    return true;
  }
  Json* const parent = find(root, pointer, pointer.size() - 1);
  if (parent == nullptr) return false;
  const std::string& last = pointer.back();
  if (parent->is_object()) {
    (*parent)[last] = std::move(value);
    return true;
  }
  if (!parent->is_array()) return false;
  const auto index = last == "-" ? parent->size() : read_index(last, parent->size());
  if (!index) return false;
  parent->insert(parent->begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
  return true;
}

bool remove(Json& root, const Pointer& pointer) {
  if (pointer.empty() || find(root, pointer) == nullptr) return false;
  Json& parent = *find(root, pointer, pointer.size() - 1);
  if (parent.is_object()) {
    parent.erase(pointer.back());
  } else {
    parent.erase(*read_index(pointer.back(), parent.size()));
  }
  return true;
}

bool replace(Json& root, const Pointer& pointer, const Json& value) {
  Json* const at = find(root, pointer);
  if (at == nullptr || !fits(pointer, value)) return false;
  *at = value;
  return true;
}

// move and copy. `budget` is what may still be copied, in bytes: copies of copies grow without end.
bool transfer(Json& root, const Json& operation, const Pointer& to, std::size_t& budget) {
  const auto from = read_pointer(member(operation, "from"));
  const Json* const source = from ? find(root, *from) : nullptr;
  if (source == nullptr) return false;
  Json value = *source;
  const std::size_t bytes = value.dump().size();
  if (bytes > budget) return false;
  budget -= bytes;
  const bool is_move = text_at(operation, "op") == "move";
  if (is_move && !remove(root, *from)) return false;
  return add(root, to, std::move(value));
}

bool apply_operation(Json& root, const Json& operation, std::size_t& budget) {
  const auto pointer = read_pointer(member(operation, "path"));
  if (!pointer) return false;
  const std::string op = text_at(operation, "op");
  if (op == "remove") return remove(root, *pointer);
  if (op == "move" || op == "copy") return transfer(root, operation, *pointer, budget);
  if (!operation.contains("value")) return false;
  const Json& value = operation["value"];
  if (op == "add") return add(root, *pointer, value);
  if (op == "replace") return replace(root, *pointer, value);
  const Json* const found = find(root, *pointer);
  return op == "test" && found != nullptr && *found == value;
}

std::optional<Refusal> apply_json_patch(Json& object, const Json& patch) {
  if (!patch.is_array()) return bad_request("error decoding patch: a JSON patch is an array");
  std::size_t budget = limits::kMemoryApiBodyBytesMax;
  for (const auto& operation : patch) {
    if (operation.is_object() && apply_operation(object, operation, budget)) continue;
    return Refusal{.code = 422,
                   .reason = "Invalid",
                   .message = "the server rejected our request due to an error in our request"};
  }
  return {};
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
