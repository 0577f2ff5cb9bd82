#include "plugin/cards/yaml_fields.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <type_traits>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/allocation/limits.h"

namespace mgpu::plugin::yaml {
namespace {

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

class IgnoredEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// Does not use YAML::LoadAll(), which finds documents without end in a text such as ", a".
void check_one_document(const std::string& text, std::string_view content) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  IgnoredEvents ignored;
  const bool any = parser.HandleNextDocument(ignored);
  const bool more = any && parser.HandleNextDocument(ignored);
  if (any && !more) return;
  refuse(fmt::format("the file must have one YAML document with {}, found {}", content,
                     any ? "more" : "none"));
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

Fields::Fields(const YAML::Node& node, std::string place,
               const std::vector<std::string_view>& known)
    : node_(node), place_(std::move(place)) {
  const std::string here = place_.empty() ? "the file" : place_;
  if (!node_.IsMap()) {
    refuse(fmt::format("{} must be a map{}{}", here, known.empty() ? "" : " with ",
                       fmt::join(known, ", ")));
  }
  std::set<std::string> seen;
  for (const auto& field : node_) {
    const std::string name = field.first.IsScalar() ? field.first.Scalar() : "";
    if (!known.empty() && std::ranges::find(known, name) == known.end()) {
      refuse(fmt::format("{} has an unknown field {}, expected {}", here, in_quotes(name),
                         fmt::join(known, ", ")));
    }
    if (!seen.insert(name).second) refuse(fmt::format("{} is there twice", place_of(name)));
  }
}

YAML::Node Fields::child(std::string_view name) const {
  const YAML::Node found = std::as_const(node_)[std::string(name)];
  const bool absent = !found.IsDefined() || found.IsNull();
  return absent ? YAML::Node(YAML::NodeType::Undefined) : found;
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
  const YAML::Node found = child(name);
  if (!found.IsDefined() || !found.IsSequence()) {
    refuse(fmt::format("{} must be a list, found {}", place_of(name),
                       found.IsDefined() ? "something else" : "nothing"));
  }
  if (found.size() > most) {
    refuse(fmt::format("{} must have at most {} entries, found {}", place_of(name), most,
                       found.size()));
  }
  std::vector<Entry> entries;
  for (const YAML::Node& node : found) {
    entries.push_back({fmt::format("{}[{}]", place_of(name), entries.size()), node});
  }
  return entries;
}

template <class Number>
Number Fields::number(std::string_view name, Number least, Number most) const {
  const std::string expected = fmt::format("a {}number from {} to {}",
                                           std::is_integral_v<Number> ? "whole " : "", least, most);
  const std::string found = scalar(name, expected);
  Number value{};
  const char* const end = found.data() + found.size();
  const auto [stop, code] = std::from_chars(found.data(), end, value);
  // Written so that "nan" is out of range.
  if (code == std::errc() && stop == end && value >= least && value <= most) return value;
  refuse(fmt::format("{} must be {}, found {}", place_of(name), expected, in_quotes(found)));
}

template int Fields::number(std::string_view, int, int) const;
template std::int64_t Fields::number(std::string_view, std::int64_t, std::int64_t) const;
template double Fields::number(std::string_view, double, double) const;

std::string Fields::scalar(std::string_view name, std::string_view expected) const {
  const YAML::Node found = child(name);
  if (found.IsDefined() && found.IsScalar()) return found.Scalar();
  refuse(fmt::format("{} must be {}, found {}", place_of(name), expected,
                     !found.IsDefined() ? "nothing"
                     : found.IsMap()    ? "a map"
                                        : "a list"));
}

Result<void> read_document(std::string_view text, std::string_view content,
                           const std::function<void(const YAML::Node& document)>& reader) try {
  const std::string copy(text);
  check_one_document(copy, content);
  reader(YAML::Load(copy));
  return {};
} catch (const Refused& refused) {
  return error(refused.sentence);
} catch (const YAML::DeepRecursion& failure) {
  return error(fmt::format("line {} is nested too deeply", failure.mark.line + 1));
} catch (const YAML::Exception& failure) {
  return error(fmt::format("not YAML: line {}: {}", failure.mark.line + 1,
                           json_escaped(cut_text(failure.msg, kQuotedValueMax))));
} catch (const std::exception& failure) {
  return error(fmt::format("not YAML: {}", in_quotes(failure.what())));
}

}  // namespace mgpu::plugin::yaml
