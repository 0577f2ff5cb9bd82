// Fields of YAML of which each error is one sentence that names the field, the value and what was
// expected. The functions throw Refused at the first error, which read() catches.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/yaml/read.h"
#include "common/yaml/value.h"

namespace mgpu::plugin::yaml {

using mgpu::yaml::Value;

struct Refused {
  std::string sentence;
};

[[noreturn]] void refuse(std::string sentence);

// Refuses a path that is not absolute, has "..", or is longer than kPathBytesMax.
void check_absolute_path(const std::string& path, const std::string& place);

// An entry of a list. `place` names it in sentences: "cards[1].devices[0]".
struct Entry {
  std::string place;
  const Value& node;
};

// The fields of one YAML map. A field that is null counts as absent.
class Fields {
 public:
  // `place` is empty for the whole file. Refuses a node that is not a map, and fields that are not
  // in `known`, unless that is empty. REQUIRES: the node exists as long as this.
  Fields(const Value& node, std::string place, const std::vector<std::string_view>& known);

  // Null if the field is absent.
  const Value& child(std::string_view name) const { return node_[name]; }
  bool has(std::string_view name) const { return !child(name).is_null(); }
  // "cards[1].uuid"
  std::string place_of(std::string_view name) const;

  // 1 to kCardTextMax bytes without control characters.
  std::string text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  std::string absolute_path(std::string_view name) const;
  std::vector<Entry> list(std::string_view name, std::size_t most) const;

  // Reads a number of the types int, std::int64_t and double.
  template <class Number>
  Number number(std::string_view name, Number least, Number most) const;

 private:
  std::string scalar(std::string_view name, std::string_view expected) const;

  const Value& node_;
  std::string place_;
};

// What `reader` reads of the only document of a text. Errors: those of read_document(), or `reader`
// throws Refused.
template <class Read>
Result<Read> read(std::string_view text, Read (*reader)(const Value& document)) try {
  const auto document = mgpu::yaml::read_document(text);
  if (!document) return document.error();
  return reader(*document);
} catch (const Refused& refused) {
  return error(refused.sentence);
}

}  // namespace mgpu::plugin::yaml
