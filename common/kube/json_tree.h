// The wanted parts of a JSON text as a tree, and typed reading of it that says where a value of the
// wrong type stands. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/kube/objects.h"
#include "common/result.h"

namespace mgpu::kube {

struct JsonNode {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool truth = false;
  std::optional<std::int64_t> integer;  // of a number, where it is one
  std::string name;                     // of a member
  std::string text;                     // of a string; a number as written
  std::vector<JsonNode> children;       // elements or members, in the order of the text
};

// Whether the member `name` of an object at `depth` becomes part of the tree. The root has depth 1.
using JsonFilter = bool (*)(std::size_t depth, std::string_view name);

// Errors: not JSON; nesting beyond limits::kJsonDepthMax. Linear in the text's size.
Result<JsonNode> parse_json(std::string_view json, JsonFilter wanted);

// The text that a JSON string literal stands for.
Result<std::string> unescape_json(std::string_view literal);

// A place in a tree. Absent and null members read as empty; a member of another type than asked
// for also does, and is noted in `problem` (the first one stays). A cursor must not outlive the one
// it was made from.
class JsonCursor {
 public:
  JsonCursor(const JsonNode& root, std::string& problem);

  bool has(std::string_view name) const;
  JsonCursor object(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::int32_t int32(std::string_view name) const;
  bool boolean(std::string_view name) const;
  StringMap texts(std::string_view name) const;
  // As texts; a whole number stands for its digits, as in Kubernetes' own reader of quantities.
  StringMap quantities(std::string_view name) const;
  std::vector<std::string> text_list(std::string_view name) const;
  void each_object(std::string_view name,
                   const std::function<void(const JsonCursor&)>& visit) const;

 private:
  using Kind = JsonNode::Kind;

  JsonCursor(const JsonNode* node, const JsonCursor& parent, std::string name)
      : node_(node), parent_(&parent), name_(std::move(name)), problem_(parent.problem_) {}

  // The member, where it has the kind `kind`; else none, and a problem unless it is absent.
  const JsonNode* member(std::string_view name, Kind kind, std::string_view expected) const;
  void note(const JsonNode& found, std::string_view name, std::string_view expected) const;
  StringMap map(std::string_view name, bool numbers) const;
  std::string path(std::string_view name) const;

  const JsonNode* node_;  // none: absent
  const JsonCursor* parent_ = nullptr;
  std::string name_;
  std::string* problem_;
};

// Parses the object that `json` is and reads it with `read`.
template <class T, class Read>
Result<T> read_tree(std::string_view json, JsonFilter wanted, const Read& read) {
  const auto root = parse_json(json, wanted);
  if (!root) return root.error();
  if (root->kind != JsonNode::Kind::kObject) return error("the JSON text must be an object");
  std::string problem;
  T value = read(JsonCursor(*root, problem));
  if (!problem.empty()) return error(std::move(problem));
  return value;
}

}  // namespace mgpu::kube
