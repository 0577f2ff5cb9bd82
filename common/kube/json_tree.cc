#include "common/kube/json_tree.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/kube/json_plain.h"
#include "common/limits.h"
#include "common/text.h"

namespace mgpu::kube {
namespace {

using Json = nlohmann::json;
using Kind = JsonNode::Kind;

// Receives the parser's events. An unwanted member is read over: `skipped_` counts the open
// objects and arrays inside it.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(JsonFilter wanted) : wanted_(wanted) {}

  JsonNode take() { return std::move(root_); }
  Error failure() const { return error(failure_); }

  bool null() override { return leaf(Kind::kNull); }
  bool boolean(bool value) override { return leaf(Kind::kBoolean, {}, {}, value); }
  bool number_integer(std::int64_t value) override {
    return leaf(Kind::kNumber, std::to_string(value), value);
  }
  bool number_unsigned(std::uint64_t value) override {
    if (std::in_range<std::int64_t>(value)) return number_integer(static_cast<std::int64_t>(value));
    return leaf(Kind::kNumber, std::to_string(value));
  }
  bool number_float(double, const std::string& text) override { return leaf(Kind::kNumber, text); }
  bool string(std::string& text) override { return leaf(Kind::kString, std::move(text)); }
  bool binary(Json::binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open(Kind::kObject); }
  bool start_array(std::size_t) override { return open(Kind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (skipped_ > 0) return true;
    skip_next_ = !wanted_(open_.size(), name);
    name_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    failure_ = fmt::format("not JSON: at byte {}, near {}", position, in_quotes(token));
    return false;
  }

 private:
  bool leaf(Kind kind, std::string text = {}, std::optional<std::int64_t> integer = {},
            bool truth = false) {
    if (skipping()) return true;
    JsonNode& node = *add(kind);
    node.text = std::move(text);
    node.integer = integer;
    node.truth = truth;
    return true;
  }

  // What is skipped may be of any depth: managedFields of hostile pods are.
  bool open(Kind kind) {
    if (skipping()) {
      ++skipped_;
      return true;
    }
    if (open_.size() == limits::kJsonDepthMax) {
      failure_ = fmt::format("JSON nested deeper than {} levels", limits::kJsonDepthMax);
      return false;
    }
    open_.push_back(add(kind));
    return true;
  }

  bool close() {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  bool skipping() {
    const bool first = std::exchange(skip_next_, false);
    return first || skipped_ > 0;
  }

  // Only the youngest child of an open node can be open itself, so growing moves no open node.
  JsonNode* add(Kind kind) {
    JsonNode& node = open_.empty() ? root_ : open_.back()->children.emplace_back();
    node.kind = kind;
    node.name = std::exchange(name_, {});
    return &node;
  }

  JsonFilter wanted_;
  JsonNode root_;
  std::vector<JsonNode*> open_;
  std::string name_;
  std::size_t skipped_ = 0;
  bool skip_next_ = false;
  std::string failure_;
};

std::string described(const JsonNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return node.truth ? "boolean true" : "boolean false";
    case Kind::kNumber:
      return "number " + std::string(cut_text(node.text, limits::kQuotedValueMax));
    case Kind::kString:
      return "string " + in_quotes(node.text);
    case Kind::kArray:
      return "array";
    case Kind::kObject:
      return "object";
  }
  return "unknown";
}

const JsonNode* find(const JsonNode* object, std::string_view name) {
  if (object == nullptr) return nullptr;
  // The last of equal names counts, as in Go.
  for (auto child = object->children.rbegin(); child != object->children.rend(); ++child) {
    if (child->name == name) return child->kind == Kind::kNull ? nullptr : &*child;
  }
  return nullptr;
}

}  // namespace

Result<JsonNode> parse_json(std::string_view json, JsonFilter wanted) {
  if (auto root = parse_plain_json(json, wanted)) return std::move(*root);
  TreeBuilder builder(wanted);
  if (!Json::sax_parse(json.begin(), json.end(), &builder)) return builder.failure();
  return builder.take();
}

Result<std::string> unescape_json(std::string_view literal) {
  auto node = parse_json(literal, [](std::size_t, std::string_view) { return true; });
  if (!node) return node.error();
  if (node->kind != Kind::kString) return error("not a JSON string: " + in_quotes(literal));
  return std::move(node->text);
}

JsonCursor::JsonCursor(const JsonNode& root, std::string& problem)
    : node_(&root), problem_(&problem) {}

std::string JsonCursor::path(std::string_view name) const {
  std::string text(name);
  for (const JsonCursor* at = this; at->parent_ != nullptr; at = at->parent_) {
    text = at->name_ + "." + text;
  }
  return text;
}

void JsonCursor::note(const JsonNode& found, std::string_view name,
                      std::string_view expected) const {
  if (!problem_->empty()) return;
  *problem_ = fmt::format("{} must be {}, is {}", path(name), expected, described(found));
}

const JsonNode* JsonCursor::member(std::string_view name, Kind kind,
                                   std::string_view expected) const {
  const JsonNode* found = find(node_, name);
  if (found == nullptr || found->kind == kind) return found;
  note(*found, name, expected);
  return nullptr;
}

bool JsonCursor::has(std::string_view name) const {
  return find(node_, name) != nullptr;
}

JsonCursor JsonCursor::object(std::string_view name) const {
  return {member(name, Kind::kObject, "an object"), *this, std::string(name)};
}

std::string JsonCursor::text(std::string_view name) const {
  const JsonNode* found = member(name, Kind::kString, "a string");
  return found == nullptr ? std::string() : found->text;
}

std::int32_t JsonCursor::int32(std::string_view name) const {
  constexpr std::string_view kExpected = "a 32-bit integer";
  const JsonNode* found = member(name, Kind::kNumber, kExpected);
  if (found == nullptr) return 0;
  if (found->integer && std::in_range<std::int32_t>(*found->integer)) {
    return static_cast<std::int32_t>(*found->integer);
  }
  note(*found, name, kExpected);
  return 0;
}

bool JsonCursor::boolean(std::string_view name) const {
  const JsonNode* found = member(name, Kind::kBoolean, "true or false");
  return found != nullptr && found->truth;
}

StringMap JsonCursor::texts(std::string_view name) const {
  return map(name, false);
}

StringMap JsonCursor::quantities(std::string_view name) const {
  return map(name, true);
}

StringMap JsonCursor::map(std::string_view name, bool numbers) const {
  StringMap texts;
  const JsonCursor at = object(name);
  if (at.node_ == nullptr) return texts;
  for (const JsonNode& child : at.node_->children) {
    const bool fits = child.kind == Kind::kString || (numbers && child.integer);
    if (!fits) at.note(child, cut_text(child.name, limits::kQuotedValueMax), "a string");
    texts[child.name] = child.text;
  }
  return texts;
}

std::vector<std::string> JsonCursor::text_list(std::string_view name) const {
  std::vector<std::string> texts;
  const JsonNode* found = member(name, Kind::kArray, "an array");
  if (found == nullptr) return texts;
  for (const JsonNode& child : found->children) {
    if (child.kind != Kind::kString) note(child, std::string(name) + "[]", "a string");
    texts.push_back(child.text);
  }
  return texts;
}

void JsonCursor::each_object(std::string_view name,
                             const std::function<void(const JsonCursor&)>& visit) const {
  const JsonNode* found = member(name, Kind::kArray, "an array");
  if (found == nullptr) return;
  for (std::size_t i = 0; i < found->children.size(); ++i) {
    const JsonNode& child = found->children[i];
    const std::string place = fmt::format("{}[{}]", name, i);
    if (child.kind != Kind::kObject) {
      note(child, place, "an object");
      continue;
    }
    visit(JsonCursor(&child, *this, place));
  }
}

}  // namespace mgpu::kube
