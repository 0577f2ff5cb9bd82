#include "extender/kubectl/output.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "common/base/text.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Whether every reader of YAML takes the text without quotes as this text, and not as a number or a
// boolean.
bool is_plain(const std::string& text) {
  constexpr std::array<std::string_view, 11> kOther = {"true", "false", "null", "yes", "no", "on",
                                                       "off",  "y",     "n",    "nan", "inf"};
  const auto is_safe = [](char c) {
    return is_ascii_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' ||
           c == '/';
  };
  return !text.empty() && is_ascii_letter(text.front()) && std::ranges::all_of(text, is_safe) &&
         std::ranges::find(kOther, lower_case(text)) == kOther.end();
}

void write_yaml(YAML::Emitter& out, const Json& json) {
  if (json.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [name, value] : json.items()) {
      out << YAML::Key << name << YAML::Value;
      write_yaml(out, value);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    out << YAML::BeginSeq;
    for (const Json& element : json) write_yaml(out, element);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    if (!is_plain(text)) out << YAML::DoubleQuoted;
    out << text;
  } else {
    out << json.dump();  // a number, true, false or null
  }
}

}  // namespace

std::string json_text(const Json& json) {
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

std::string yaml_text(const Json& json) {
  YAML::Emitter out;
  out.SetOutputCharset(YAML::EscapeNonAscii);
  write_yaml(out, json);
  return std::string(out.c_str()) + "\n";
}

void print_as(const std::string& format, const Json& json, const std::string& text,
              Console& console) {
  console.print(format == "json" ? json_text(json) : format == "yaml" ? yaml_text(json) : text);
}

void add_view_flags(Options& options, ViewFlags& flags, const std::vector<std::string>& formats) {
  add_output_flag(options, flags.output, formats);
  options.add_text("sort-by",
                   "Column by which the rows of a table are sorted, such as free: numbers from the "
                   "highest, texts from the first.",
                   flags.sort_by);
  options.add_flag("no-headers", "Print a table without the line of titles.", flags.no_headers);
}

Result<void> show(View view, const ViewFlags& flags, Console& console) {
  if (!flags.sort_by.empty()) {
    if (auto sorted = view.table.sort_by(flags.sort_by); !sorted) return sorted;
  }
  if (flags.output == "json" || flags.output == "yaml") {
    print_as(flags.output, view.json, "", console);
  } else if (flags.output == "name") {
    for (const std::string& name : view.names) {
      console.print(sanitize_for_terminal(name, kShownSentenceMax) + "\n");
    }
  } else if (view.table.empty()) {
    console.print_error(view.empty + "\n");
  } else {
    console.print(view.table.text({.wide = flags.output == "wide",
                                   .terminal = console.colors,
                                   .headers = !flags.no_headers,
                                   .width = console.width,
                                   .utf8 = console.utf8}));
  }
  return {};
}

int fail(Console& console, const std::string& sentence) {
  console.print_error(
      fmt::format("kubectl mgpu: {}\n", sanitize_for_terminal(sentence, kShownSentenceMax)));
  return kFoundOrFailed;
}

int fail(Console& console, const std::vector<std::string>& sentences) {
  const std::size_t shown = std::min(sentences.size(), kProblemsShownMax);
  for (std::size_t i = 0; i < shown; ++i) fail(console, sentences[i]);
  if (shown == sentences.size()) return shown == 0 ? kSucceeded : kFoundOrFailed;
  return fail(console, fmt::format("{} more like these", sentences.size() - shown));
}

}  // namespace mgpu::kubectl
