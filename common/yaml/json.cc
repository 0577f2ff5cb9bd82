#include "common/yaml/json.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <string_view>

#include "common/base/text.h"

namespace mgpu::yaml {
namespace {

void write_text(const std::string& text, std::string& out) {
  out += '"' + json_escaped(text) + '"';
}

void write_scalar(const Value& scalar, std::string& out) {
  const std::string& text = scalar.text;
  const bool may_be_number = text.find_first_of("0123456789") <= 2;  // "-.5"
  const bool may_be_boolean = text.size() <= std::string_view("false").size();
  if (scalar.quoted || (!may_be_number && !may_be_boolean)) return write_text(text, out);
  const YAML::Node node(text);
  bool truth = false;
  long long whole = 0;
  double number = 0;
  // YAML's infinity and NaN stay texts: JSON does not have them.
  if (YAML::convert<bool>::decode(node, truth)) {
    out += truth ? "true" : "false";
  } else if (may_be_number && YAML::convert<long long>::decode(node, whole)) {
    out += std::to_string(whole);
  } else if (may_be_number && YAML::convert<double>::decode(node, number) &&
             std::isfinite(number)) {
    out += fmt::format("{}", number);
  } else {
    write_text(text, out);
  }
}

void write(const Value& value, std::string& out) {
  if (value.is_null()) out += "null";
  if (value.is_text()) write_scalar(value, out);
  if (!value.is_map() && !value.is_list()) return;
  out += value.is_map() ? '{' : '[';
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) out += ',';
    if (value.is_map()) {
      write_text(value.keys[i].text, out);
      out += ':';
    }
    write(value.items[i], out);
  }
  out += value.is_map() ? '}' : ']';
}

}  // namespace

std::string json_of(const Value& value) {
  std::string text;
  write(value, text);
  return text;
}

}  // namespace mgpu::yaml
