#include "plugin/cards/cards_file_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

// The whole of `text` as a number from `least` to `most`.
template <class Number>
std::optional<Number> number_in(std::string_view text, Number least, Number most) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  // Written so that "nan" is out of range.
  const bool in_range = code == std::errc() && stop == end && value >= least && value <= most;
  return in_range ? std::optional(value) : std::nullopt;
}

bool is_absent(const YAML::Node& node) {
  return !node.IsDefined() || node.IsNull();
}

}  // namespace

void check_absolute_path(const std::string& path, const std::string& place, Problem& problem) {
  const std::string within = path + "/";
  const bool good = path.starts_with('/') && path.size() > 1 && path.size() <= kPathBytesMax &&
                    within.find("/../") == std::string::npos &&
                    std::none_of(path.begin(), path.end(), is_control);
  if (good) return;
  problem.note(
      fmt::format("{} must be an absolute path without \"..\", found {}", place, in_quotes(path)));
}

YamlFields::YamlFields(const YAML::Node& node, std::string path,
                       std::vector<std::string_view> known, Problem& problem)
    : node_(node), path_(std::move(path)), problem_(problem) {
  const std::string here = path_.empty() ? "the file" : path_;
  if (!node_.IsMap()) {
    node_ = YAML::Node(YAML::NodeType::Map);
    problem_.note(fmt::format("{} must be a map with {}", here, fmt::join(known, ", ")));
    return;
  }
  std::set<std::string> seen;
  for (const auto& field : node_) {
    if (!problem_.none()) return;
    const std::string name = field.first.IsScalar() ? field.first.Scalar() : "";
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problem_.note(fmt::format("{} has an unknown field {}, expected {}", here, in_quotes(name),
                                fmt::join(known, ", ")));
    }
    if (!seen.insert(name).second) problem_.note(place(name) + " is there twice");
  }
}

bool YamlFields::has(std::string_view name) const {
  return !is_absent(child(name));
}

YAML::Node YamlFields::child(std::string_view name) const {
  const YAML::Node found = std::as_const(node_)[std::string(name)];
  return is_absent(found) ? YAML::Node(YAML::NodeType::Undefined) : found;
}

std::string YamlFields::place(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::string YamlFields::place(std::string_view name, std::size_t entry) const {
  return fmt::format("{}[{}]", place(name), entry);
}

std::optional<std::string> YamlFields::scalar(std::string_view name,
                                              std::string_view expected) const {
  const YAML::Node found = child(name);
  if (found.IsDefined() && found.IsScalar()) return found.Scalar();
  problem_.note(fmt::format("{} must be {}, found {}", place(name), expected,
                            !found.IsDefined() ? "nothing"
                            : found.IsMap()    ? "a map"
                                               : "a list"));
  return std::nullopt;
}

std::string YamlFields::text(std::string_view name, std::size_t longest) const {
  const std::string expected = fmt::format("a text of 1 to {} bytes", longest);
  auto found = scalar(name, expected);
  if (!found) return {};
  const bool good = !found->empty() && found->size() <= longest &&
                    std::none_of(found->begin(), found->end(), is_control);
  if (good) return *std::move(found);
  problem_.note(fmt::format("{} must be {} without control characters, found {}", place(name),
                            expected, in_quotes(*found)));
  return {};
}

std::int64_t YamlFields::whole(std::string_view name, std::int64_t least, std::int64_t most) const {
  const std::string expected = fmt::format("a whole number from {} to {}", least, most);
  const auto found = scalar(name, expected);
  if (!found) return least;
  if (const auto value = number_in(*found, least, most)) return *value;
  problem_.note(fmt::format("{} must be {}, found {}", place(name), expected, in_quotes(*found)));
  return least;
}

double YamlFields::number(std::string_view name, double least, double most) const {
  const std::string expected = fmt::format("a number from {} to {}", least, most);
  const auto found = scalar(name, expected);
  if (!found) return least;
  if (const auto value = number_in(*found, least, most)) return *value;
  problem_.note(fmt::format("{} must be {}, found {}", place(name), expected, in_quotes(*found)));
  return least;
}

bool YamlFields::truth(std::string_view name) const {
  const auto found = scalar(name, "true or false");
  if (found && *found != "true" && *found != "false") {
    problem_.note(
        fmt::format("{} must be true or false, found {}", place(name), in_quotes(*found)));
  }
  return found == "true";
}

std::string YamlFields::absolute_path(std::string_view name) const {
  const auto found = scalar(name, "an absolute path");
  if (!found) return {};
  check_absolute_path(*found, place(name), problem_);
  return *found;
}

std::vector<YAML::Node> YamlFields::list(std::string_view name, std::size_t most) const {
  const YAML::Node found = child(name);
  if (!found.IsDefined() || !found.IsSequence()) {
    problem_.note(fmt::format("{} must be a list, found {}", place(name),
                              found.IsDefined() ? "something else" : "nothing"));
    return {};
  }
  if (found.size() > most) {
    problem_.note(
        fmt::format("{} must have at most {} entries, found {}", place(name), most, found.size()));
    return {};
  }
  return {found.begin(), found.end()};
}

}  // namespace mgpu::plugin
