#include "common/kube/objects/json_value.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/kube/limits.h"

namespace mgpu::kube {

namespace ondemand = simdjson::ondemand;
using ValueKind = JsonValue::Kind;

struct JsonValue::Cursor {
  ondemand::value value{};                   // unused for the root
  std::optional<ondemand::object> object{};  // of the root, and after object_text()
  std::string* problem = nullptr;
  const Cursor* parent = nullptr;  // null: this is the root
  std::string_view name{};         // of a member
  std::size_t index = 0;           // of an element
  bool element = false;
  bool failed = false;  // simdjson cannot read any more of it

  std::string path() const;
  std::string described();
  ValueKind kind();

  void note(std::string_view expected);
  void fail(simdjson::error_code code);
  // True for a value of this kind. A value of another kind but null is a problem.
  bool is(ValueKind wanted, std::string_view expected);
  // None if the value is not an object, which is a problem but for null.
  std::optional<ondemand::object> open_object();
};

namespace {

// A parser's buffers are about six times as large as the text. Each thread keeps one parser for the
// next text, unless the last text was unusually large.
class ThreadLocalParser {
 public:
  ThreadLocalParser() : parser_(std::move(spare())) {
    if (!parser_) parser_ = std::make_unique<ondemand::parser>();
  }
  ~ThreadLocalParser() {
    if (parser_->capacity() <= kJsonParserKeptBytes) spare() = std::move(parser_);
  }
  ondemand::parser& operator*() { return *parser_; }

 private:
  static std::unique_ptr<ondemand::parser>& spare() {
    static thread_local std::unique_ptr<ondemand::parser> spare;
    return spare;
  }
  std::unique_ptr<ondemand::parser> parser_;
};

std::string_view without_trailing_blanks(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::string not_json(simdjson::error_code code) {
  return fmt::format("not JSON: {}", simdjson::error_message(code));
}

void replace_bad(simdjson::padded_string& text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return;
  const std::string_view all(text.data(), text.size());
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t length = utf8_sequence_at(all, at);
    if (length == 0) text.data()[at] = '?';
    at += std::max(length, std::size_t{1});
  }
}

}  // namespace

// --- path and problem of a value -----------------------------------------------------------------

std::string JsonValue::Cursor::path() const {
  if (parent == nullptr) return "";
  const std::string before = parent->path();
  if (element) return fmt::format("{}[{}]", before, index);
  return before + (before.empty() ? "" : ".") + json_escaped(cut_text(name, kQuotedValueMax));
}

ValueKind JsonValue::Cursor::kind() {
  using Type = ondemand::json_type;
  if (object) return ValueKind::kObject;
  Type type{};
  if (value.type().get(type)) return ValueKind::kBroken;
  switch (type) {
    case Type::object:
      return ValueKind::kObject;
    case Type::array:
      return ValueKind::kArray;
    case Type::string:
      return ValueKind::kString;
    case Type::number:
      return ValueKind::kNumber;
    // simdjson derives these two from the first letter alone.
    case Type::boolean:
      return value.get_bool().error() ? ValueKind::kBroken : ValueKind::kBoolean;
    case Type::null:
      break;
  }
  bool null = false;
  return !value.is_null().get(null) && null ? ValueKind::kNull : ValueKind::kBroken;
}

std::string JsonValue::Cursor::described() {
  const ValueKind kind = this->kind();
  if (kind == ValueKind::kObject) return "object";
  if (kind == ValueKind::kArray) return "array";
  const std::string_view token = without_trailing_blanks(value.raw_json_token());
  std::string_view text;
  if (kind == ValueKind::kString) {
    return "string " + in_quotes(value.get_string().get(text) ? token : text);
  }
  const char* const type = kind == ValueKind::kNumber    ? "number "
                           : kind == ValueKind::kBoolean ? "boolean "
                                                         : "";
  return type + json_escaped(cut_text(token, kQuotedValueMax));
}

void JsonValue::Cursor::note(std::string_view expected) {
  if (!problem->empty()) return;
  if (kind() == ValueKind::kBroken) return fail(simdjson::TAPE_ERROR);
  *problem = fmt::format("{} must be {}, is {}", path(), expected, described());
}

void JsonValue::Cursor::fail(simdjson::error_code code) {
  failed = true;
  if (!problem->empty()) return;
  const std::string at = path();
  *problem = not_json(code) + (at.empty() ? "" : ", at " + at);
}

bool JsonValue::Cursor::is(ValueKind wanted, std::string_view expected) {
  const ValueKind found = kind();
  if (found != wanted && found != ValueKind::kNull) note(expected);
  return found == wanted;
}

std::optional<ondemand::object> JsonValue::Cursor::open_object() {
  if (failed) return std::nullopt;
  if (object) return object;
  if (!is(ValueKind::kObject, "an object")) return std::nullopt;
  ondemand::object opened;
  if (const auto code = value.get_object().get(opened)) return fail(code), std::nullopt;
  return opened;
}

// --- values --------------------------------------------------------------------------------------

ValueKind JsonValue::kind() const {
  return cursor_.kind();
}

std::string JsonValue::text() {
  if (!cursor_.is(ValueKind::kString, "a string")) return {};
  std::string_view text;
  if (const auto code = cursor_.value.get_string().get(text)) cursor_.fail(code);
  return std::string(text);
}

std::int32_t JsonValue::int32() {
  const ValueKind found = kind();
  if (found == ValueKind::kNull) return 0;
  std::int64_t number = 0;
  const bool whole = found == ValueKind::kNumber && !cursor_.value.get_int64().get(number);
  if (whole && std::in_range<std::int32_t>(number)) return static_cast<std::int32_t>(number);
  cursor_.note("a 32-bit integer");
  return 0;
}

double JsonValue::number() {
  if (!cursor_.is(ValueKind::kNumber, "a number")) return 0;
  double number = 0;
  if (cursor_.value.get_double().get(number)) cursor_.note("a number");
  return number;
}

bool JsonValue::boolean() {
  if (!cursor_.is(ValueKind::kBoolean, "true or false")) return false;
  bool truth = false;
  if (const auto code = cursor_.value.get_bool().get(truth)) cursor_.fail(code);
  return truth;
}

StringMap JsonValue::map(bool numbers) {
  StringMap texts;
  members([&](std::string_view name, JsonValue& value) {
    std::int64_t number = 0;
    if (numbers && value.kind() == ValueKind::kNumber &&
        !value.cursor_.value.get_int64().get(number)) {
      texts[std::string(name)] = std::to_string(number);
    } else if (value.kind() == ValueKind::kString) {
      texts[std::string(name)] = value.text();
    } else {
      value.cursor_.note("a string");
    }
  });
  return texts;
}

std::vector<std::string> JsonValue::text_list() {
  std::vector<std::string> texts;
  elements([&](JsonValue& value) {
    if (value.kind() == ValueKind::kNull) value.cursor_.note("a string");
    texts.push_back(value.text());
  });
  return texts;
}

bool JsonValue::must_be_object() {
  if (kind() == ValueKind::kObject) return true;
  cursor_.note("an object");
  return false;
}

std::string JsonValue::object_text() {
  if (!must_be_object()) return {};
  auto object = cursor_.open_object();
  if (!object) return {};
  std::string_view text;
  if (const auto code = object->raw_json().get(text)) return cursor_.fail(code), std::string();
  if (const auto code = object->reset().error()) return cursor_.fail(code), std::string();
  cursor_.object = object;
  return std::string(without_trailing_blanks(text));
}

void JsonValue::members(const std::function<void(std::string_view name, JsonValue& value)>& visit) {
  auto object = cursor_.open_object();
  if (!object) return;
  for (auto field : *object) {
    Cursor at{.problem = cursor_.problem, .parent = &cursor_};
    if (const auto code = field.unescaped_key().get(at.name)) return cursor_.fail(code);
    if (const auto code = field.value().get(at.value)) return cursor_.fail(code);
    JsonValue value(at);
    visit(at.name, value);
  }
}

void JsonValue::elements(const std::function<void(JsonValue& value)>& visit) {
  if (!cursor_.is(ValueKind::kArray, "an array")) return;
  ondemand::array array;
  if (const auto code = cursor_.value.get_array().get(array)) return cursor_.fail(code);
  std::size_t index = 0;
  for (auto element : array) {
    Cursor at{.problem = cursor_.problem, .parent = &cursor_, .index = index++, .element = true};
    if (const auto code = element.get(at.value)) return cursor_.fail(code);
    JsonValue value(at);
    visit(value);
  }
}

void JsonValue::read(std::initializer_list<JsonField> fields) {
  members([&](std::string_view name, JsonValue& value) {
    for (const JsonField& field : fields) {
      if (field.name == name) return field.read(value);
    }
  });
}

std::string JsonValue::try_read(const std::function<void(JsonValue& value)>& read) {
  std::string problem;
  std::string* const outer = std::exchange(cursor_.problem, &problem);
  read(*this);
  cursor_.problem = outer;
  return problem;
}

// --- the whole text ------------------------------------------------------------------------------

Result<void> read_json(std::string_view json, const std::function<void(JsonValue& root)>& read,
                       bool replace_bad_bytes) {
  simdjson::padded_string padded(json);
  if (replace_bad_bytes) replace_bad(padded);
  const auto broken = [&](simdjson::error_code code) {
    return error(fmt::format("{}; it begins with {}", not_json(code), in_quotes(json)));
  };
  ThreadLocalParser parser;
  ondemand::document document;
  if (const auto code = (*parser).iterate(padded).get(document)) return broken(code);
  ondemand::json_type type{};
  if (const auto code = document.type().get(type)) return broken(code);
  bool null = false;
  if (type == ondemand::json_type::null && (document.is_null().get(null) || !null)) {
    return broken(simdjson::N_ATOM_ERROR);
  }
  if (type != ondemand::json_type::object) return error("the JSON text must be an object");
  std::string problem;
  JsonValue::Cursor root{.problem = &problem};
  if (const auto code = document.get_object().get(root.object.emplace())) return broken(code);
  JsonValue value(root);
  read(value);
  if (!problem.empty()) return error(std::move(problem));
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) {
    return broken(simdjson::TRAILING_CONTENT);
  }
  return {};
}

}  // namespace mgpu::kube
