// A YAML document as a value, in which aliases and merge keys are replaced by what they stand for.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mgpu::yaml {

struct Key {
  std::string text;
  bool quoted = false;

  bool operator==(const Key& other) const { return text == other.text; }
};

struct Value {
  enum class Kind { kNull, kText, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text{};          // of a scalar, as it is written
  bool quoted = false;         // in quotes or a block, so that it is neither a number nor a boolean
  bool flow = false;           // a list or map that is written with brackets
  int line = 0;                // from 1; 0 if it was not read from a text
  std::vector<Key> keys{};     // of a map, in their order
  std::vector<Value> items{};  // of a list; of a map, the value of each key

  bool is_null() const { return kind == Kind::kNull; }
  bool is_text() const { return kind == Kind::kText; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }

  // The value of this key of a map; null if there is none.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  // The same; a null value if there is none.
  const Value& operator[](std::string_view key) const;
  // The text of a scalar member; empty if there is none.
  const std::string& text_of(std::string_view key) const;

  // Adds the member, or replaces its value. REQUIRES: is_map().
  Value& set(std::string_view key, Value value);
  void remove(std::string_view key);

  // Whether both mean the same, however and wherever they are written.
  bool operator==(const Value& other) const;
};

// A text that is written in quotes.
Value quoted(std::string_view text);

}  // namespace mgpu::yaml
