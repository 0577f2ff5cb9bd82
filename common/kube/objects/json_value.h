// Reads JSON from front to back with simdjson On-Demand. Members that no reader names are skipped
// without being parsed, so that neither their depth nor their values make an object unreadable.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kube {

struct JsonField;

// A value of a JSON text, with its path. It is valid while the function that gets it runs.
//
// Null reads as empty. A value of a wrong type also does, and is a problem: a sentence with its
// path, for example "spec.priority must be a 32-bit integer, is string \"a\"". The first problem is
// kept.
class JsonValue {
 public:
  enum class Kind { kBroken, kNull, kBoolean, kNumber, kString, kArray, kObject };

  Kind kind() const;

  std::string text();
  std::int32_t int32();
  double number();
  bool boolean();
  // The members of an object of strings.
  StringMap texts() { return map(false); }
  // The same; a whole number is read as its digits, as in Kubernetes' own reader of quantities.
  StringMap quantities() { return map(true); }
  // The elements of an array of strings.
  std::vector<std::string> text_list();
  // The text of an object, which may be read afterwards. Null is a wrong type.
  std::string object_text();

  // Members and elements are visited in the order of the text. The last one of several members with
  // the same name counts, as in Go: a reader replaces the earlier value.
  void members(const std::function<void(std::string_view name, JsonValue& value)>& visit);
  void elements(const std::function<void(JsonValue& value)>& visit);

  // Reads the members of an object that `fields` name, and skips the others.
  void read(std::initializer_list<JsonField> fields);
  // The results of `read_one` for the elements of an array of objects.
  template <class Read>
  auto list(const Read& read_one) {
    std::vector<std::invoke_result_t<Read, JsonValue&>> all;
    elements([&](JsonValue& element) {
      if (element.must_be_object()) all.push_back(read_one(element));
    });
    return all;
  }
  // Calls `read` with this value. Returns the first problem in it, which then does not count as a
  // problem of the whole text.
  std::string try_read(const std::function<void(JsonValue& value)>& read);

 private:
  struct Cursor;  // in the text
  friend Result<void> read_json(std::string_view, const std::function<void(JsonValue&)>&, bool);

  explicit JsonValue(Cursor& cursor) : cursor_(cursor) {}
  JsonValue(const JsonValue&) = delete;
  JsonValue& operator=(const JsonValue&) = delete;

  bool must_be_object();
  StringMap map(bool numbers);

  Cursor& cursor_;
};

// The name of a member and the variable that gets its value, or the function that reads it.
struct JsonField {
  JsonField(std::string_view field, std::string& to)
      : name(field), read([&to](JsonValue& value) { to = value.text(); }) {}
  JsonField(std::string_view field, std::int32_t& to)
      : name(field), read([&to](JsonValue& value) { to = value.int32(); }) {}
  JsonField(std::string_view field, bool& to)
      : name(field), read([&to](JsonValue& value) { to = value.boolean(); }) {}
  JsonField(std::string_view field, StringMap& to)
      : name(field), read([&to](JsonValue& value) { to = value.texts(); }) {}
  JsonField(std::string_view field, std::vector<std::string>& to)
      : name(field), read([&to](JsonValue& value) { to = value.text_list(); }) {}
  JsonField(std::string_view field, std::function<void(JsonValue& value)> read_value)
      : name(field), read(std::move(read_value)) {}

  std::string_view name;
  std::function<void(JsonValue& value)> read;
};

// Reads `json`, which must be an object. Errors: the text is not JSON, as far as it was read; it is
// not an object; the first problem of its values. With `replace_bad_bytes`, bytes that are not
// UTF-8 are read as '?'; otherwise they are an error.
Result<void> read_json(std::string_view json, const std::function<void(JsonValue& root)>& read,
                       bool replace_bad_bytes = false);

}  // namespace mgpu::kube
