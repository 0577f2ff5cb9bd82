#include "plugin/cards/yaml_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin::yaml {
namespace {

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

}  // namespace

void refuse(std::string sentence) {
  throw Refused{std::move(sentence)};
}

void check_absolute_path(const std::string& path, const std::string& place) {
  const bool good = path.starts_with('/') && path.size() > 1 && path.size() <= kPathBytesMax &&
                    (path + "/").find("/../") == std::string::npos && !has_control_characters(path);
  if (!good) {
    refuse(fmt::format("{} must be an absolute path without \"..\", found {}", place,
                       in_quotes(path)));
  }
}

Fields::Fields(const Value& node, std::string place, const std::vector<std::string_view>& known)
    : node_(node), place_(std::move(place)) {
  const std::string here = place_.empty() ? "the file" : place_;
  if (!node_.is_map()) {
    refuse(fmt::format("{} must be a map{}{}", here, known.empty() ? "" : " with ",
                       fmt::join(known, ", ")));
  }
  for (const auto& key : node_.keys) {
    if (known.empty() || std::ranges::find(known, key.text) != known.end()) continue;
    refuse(fmt::format("{} has an unknown field {}, expected {}", here, in_quotes(key.text),
                       fmt::join(known, ", ")));
  }
}

std::string Fields::place_of(std::string_view name) const {
  return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
}

std::string Fields::text(std::string_view name) const {
  const std::string expected = fmt::format("a text of 1 to {} bytes", kCardTextMax);
  std::string found = scalar(name, expected);
  if (found.empty() || found.size() > kCardTextMax || has_control_characters(found)) {
    refuse(fmt::format("{} must be {} without control characters, found {}", place_of(name),
                       expected, in_quotes(found)));
  }
  return found;
}

bool Fields::boolean(std::string_view name) const {
  const std::string found = scalar(name, "true or false");
  if (found != "true" && found != "false") {
    refuse(fmt::format("{} must be true or false, found {}", place_of(name), in_quotes(found)));
  }
  return found == "true";
}

std::string Fields::absolute_path(std::string_view name) const {
  std::string found = scalar(name, "an absolute path");
  check_absolute_path(found, place_of(name));
  return found;
}

std::vector<Entry> Fields::list(std::string_view name, std::size_t most) const {
  const Value& found = child(name);
  if (!found.is_list()) {
    refuse(fmt::format("{} must be a list, found {}", place_of(name),
                       found.is_null() ? "nothing" : "something else"));
  }
  if (found.items.size() > most) {
    refuse(fmt::format("{} must have at most {} entries, found {}", place_of(name), most,
                       found.items.size()));
  }
  std::vector<Entry> entries;
  for (const Value& node : found.items) {
    entries.push_back({fmt::format("{}[{}]", place_of(name), entries.size()), node});
  }
  return entries;
}

template <class Number>
Number Fields::number(std::string_view name, Number least, Number most) const {
  const std::string expected = fmt::format("a {}number from {} to {}",
                                           std::is_integral_v<Number> ? "whole " : "", least, most);
  const std::string found = scalar(name, expected);
  const auto value = parse_number<Number>(found);
  // Written so that "nan" is out of range.
  if (value && *value >= least && *value <= most) return *value;
  refuse(fmt::format("{} must be {}, found {}", place_of(name), expected, in_quotes(found)));
}

template int Fields::number(std::string_view, int, int) const;
template std::int64_t Fields::number(std::string_view, std::int64_t, std::int64_t) const;
template double Fields::number(std::string_view, double, double) const;

std::string Fields::scalar(std::string_view name, std::string_view expected) const {
  const Value& found = child(name);
  if (found.is_text()) return found.text;
  refuse(fmt::format("{} must be {}, found {}", place_of(name), expected,
                     found.is_null()  ? "nothing"
                     : found.is_map() ? "a map"
                                      : "a list"));
}

}  // namespace mgpu::plugin::yaml
