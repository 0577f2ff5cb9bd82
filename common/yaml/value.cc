#include "common/yaml/value.h"

#include <algorithm>
#include <utility>

namespace mgpu::yaml {

const Value* Value::find(std::string_view key) const {
  const auto at = std::ranges::find(keys, key, &Key::text);
  return at == keys.end() ? nullptr : &items[static_cast<std::size_t>(at - keys.begin())];
}

Value* Value::find(std::string_view key) {
  return const_cast<Value*>(std::as_const(*this).find(key));
}

const Value& Value::operator[](std::string_view key) const {
  static const Value kNone;
  const Value* const found = find(key);
  return found == nullptr ? kNone : *found;
}

const std::string& Value::text_of(std::string_view key) const {
  return (*this)[key].text;
}

Value& Value::set(std::string_view key, Value value) {
  if (Value* const found = find(key)) return *found = std::move(value);
  keys.push_back({std::string(key)});
  return items.emplace_back(std::move(value));
}

void Value::remove(std::string_view key) {
  const auto at = std::ranges::find(keys, key, &Key::text);
  if (at == keys.end()) return;
  items.erase(items.begin() + (at - keys.begin()));
  keys.erase(at);
}

bool Value::operator==(const Value& other) const {
  return kind == other.kind && text == other.text && quoted == other.quoted && keys == other.keys &&
         items == other.items;
}

Value quoted(std::string_view text) {
  return {.kind = Value::Kind::kText, .text = std::string(text), .quoted = true};
}

}  // namespace mgpu::yaml
