#include "extender/wire/json.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/text.h"

namespace mgpu::extender {
namespace {

const char* description(simdjson::error_code code) {
  switch (code) {
    case simdjson::EMPTY:
      return "it is empty";
    case simdjson::CAPACITY:
    case simdjson::MEMALLOC:
      return "it is too large";
    case simdjson::DEPTH_ERROR:
      return "it is nested too deeply";
    case simdjson::UTF8_ERROR:
      return "it is not UTF-8";
    case simdjson::UNCLOSED_STRING:
    case simdjson::STRING_ERROR:
    case simdjson::UNESCAPED_CHARS:
      return "it has a broken string";
    case simdjson::NUMBER_ERROR:
      return "it has a number that is malformed or out of range";
    case simdjson::TRAILING_CONTENT:
      return "something follows the object";
    default:
      return "its structure is broken";
  }
}

}  // namespace

Error malformed(simdjson::error_code code) {
  return error(std::string("request is not valid JSON: ") + description(code));
}

Error unexpected(std::string_view field, std::string_view found, std::string_view expected) {
  // The raw text of a value from simdjson goes on up to the next token.
  while (!found.empty() && found.back() <= ' ') found.remove_suffix(1);
  return error(fmt::format("{} is {}, expected {}", field, in_quotes(found), expected));
}

bool equal_fold(std::string_view name, std::string_view lower) {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return to_lower(a) == b; });
}

std::string element_name(std::string_view field, std::size_t index) {
  return std::string(field) + "[" + std::to_string(index) + "]";
}

}  // namespace mgpu::extender
