// Reads YAML of which each error is one sentence that names the field, the value and what was
// expected. The functions throw Refused at the first error, which read() catches.
#pragma once

#include <yaml-cpp/yaml.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace mgpu::plugin::yaml {

struct Refused {
  std::string sentence;
};

[[noreturn]] void refuse(std::string sentence);

// Refuses a path that is not absolute, has "..", or is longer than kPathBytesMax.
void check_absolute_path(const std::string& path, const std::string& place);

// An entry of a list. `place` names it in sentences: "cards[1].devices[0]".
struct Entry {
  std::string place;
  YAML::Node node;
};

// The fields of one YAML map. A field that is null counts as absent.
class Fields {
 public:
  // `place` is empty for the whole file. Refuses a node that is not a map, fields that occur twice,
  // and those that are not in `known`, unless that is empty.
  Fields(const YAML::Node& node, std::string place, const std::vector<std::string_view>& known);

  // An undefined node if the field is absent.
  YAML::Node child(std::string_view name) const;
  bool has(std::string_view name) const { return child(name).IsDefined(); }
  // "cards[1].uuid"
  std::string place_of(std::string_view name) const;

  // 1 to kCardTextMax bytes without control characters.
  std::string text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::string absolute_path(std::string_view name) const;
  std::vector<Entry> list(std::string_view name, std::size_t most) const;

  // Of the types int, std::int64_t and double.
  template <class Number>
  Number number(std::string_view name, Number least, Number most) const;

 private:
  std::string scalar(std::string_view name, std::string_view expected) const;

  YAML::Node node_;
  std::string place_;
};

// Passes the only document of a text to `reader`. `content` is for the sentence about a text
// without one: "cards". Errors: it is not YAML, or `reader` throws Refused.
Result<void> read_document(std::string_view text, std::string_view content,
                           const std::function<void(const YAML::Node& document)>& reader);

template <class Value>
Result<Value> read(std::string_view text, std::string_view content,
                   const std::function<Value(const YAML::Node& document)>& reader) {
  Value value;
  const auto done =
      read_document(text, content, [&](const YAML::Node& document) { value = reader(document); });
  if (!done) return done.error();
  return value;
}

}  // namespace mgpu::plugin::yaml
