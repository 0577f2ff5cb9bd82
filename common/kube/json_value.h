// JSON from outside, read front to back by simdjson On-Demand: what no reader asks for is skipped
// unread, so neither depth nor an odd number in it makes an object unreadable. Pure; any thread.
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
#include "common/kube/objects.h"

namespace mgpu::kube {

struct JsonField;

// A value of a JSON text and its path. It is there while the function that was given it runs.
//
// Null reads as empty. A value of another type than asked for also does, and is noted as a problem:
// a sentence with its path, for example "spec.priority must be a 32-bit integer, is string \"a\"".
// The first problem stays.
class JsonValue {
 public:
  enum class Kind { kBroken, kNull, kBoolean, kNumber, kString, kArray, kObject };

  Kind kind() const;

  std::string text();
  std::int32_t int32();
  bool boolean();
  // The members of an object of strings.
  StringMap texts();
  // The same; a whole number stands for its digits, as in Kubernetes' own reader of quantities.
  StringMap quantities();
  // The elements of an array of strings.
  std::vector<std::string> text_list();
  // An object as it is written. It may be read afterwards. A null is no object.
  std::string object_text();

  // Members and elements come in the order of the text. Of members of one name the last counts, as
  // in Go: a reader replaces what it had.
  void members(const std::function<void(std::string_view name, JsonValue& value)>& visit);
  void elements(const std::function<void(JsonValue& value)>& visit);

  // Reads the members of an object that `fields` name, and skips the others.
  void read(std::initializer_list<JsonField> fields);
  // What `read_one` makes of each element of an array of objects.
  template <class Read>
  auto list(const Read& read_one) {
    std::vector<std::invoke_result_t<Read, JsonValue&>> all;
    elements([&](JsonValue& element) {
      if (element.must_be_object()) all.push_back(read_one(element));
    });
    return all;
  }
  // Calls `read` with this value; returns the problem in it, which stays out of the text's own.
  std::string apart(const std::function<void(JsonValue& value)>& read);

 private:
  struct Place;  // in the text
  friend Result<void> read_json(std::string_view, const std::function<void(JsonValue&)>&, bool);

  explicit JsonValue(Place& place) : place_(place) {}
  JsonValue(const JsonValue&) = delete;
  JsonValue& operator=(const JsonValue&) = delete;

  bool must_be_object();
  StringMap map(bool numbers);

  Place& place_;
};

// A member and where it is read to: what was there is replaced.
struct JsonField {
  JsonField(std::string_view its_name, std::string& to)
      : name(its_name), read([&to](JsonValue& value) { to = value.text(); }) {}
  JsonField(std::string_view its_name, std::int32_t& to)
      : name(its_name), read([&to](JsonValue& value) { to = value.int32(); }) {}
  JsonField(std::string_view its_name, bool& to)
      : name(its_name), read([&to](JsonValue& value) { to = value.boolean(); }) {}
  JsonField(std::string_view its_name, StringMap& to)
      : name(its_name), read([&to](JsonValue& value) { to = value.texts(); }) {}
  JsonField(std::string_view its_name, std::vector<std::string>& to)
      : name(its_name), read([&to](JsonValue& value) { to = value.text_list(); }) {}
  JsonField(std::string_view its_name, std::function<void(JsonValue& value)> its_read)
      : name(its_name), read(std::move(its_read)) {}

  std::string_view name;
  std::function<void(JsonValue& value)> read;
};

// Reads the object that `json` is. Errors: the text is not JSON, as far as it was read; it is no
// object; the first problem of its values. With `replace_bad_bytes`, bytes that are no UTF-8 read
// as '?', which nobody can tell apart from the server's own U+FFFD; otherwise they are an error.
Result<void> read_json(std::string_view json, const std::function<void(JsonValue& root)>& read,
                       bool replace_bad_bytes = false);

}  // namespace mgpu::kube
