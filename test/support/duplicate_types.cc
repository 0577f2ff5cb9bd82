#include "test/support/duplicate_types.h"

#include <map>
#include <optional>
#include <regex>
#include <string_view>

namespace mgpu::test {
namespace {

struct Definition {
  std::string name;  // with its namespaces
  std::string path;
  std::size_t line;  // from 1
};

// The namespaces that enclose the current line. In the form of this repository each namespace
// begins and ends with a line of its own, and types outside of classes and functions are not
// indented.
class Namespaces {
 public:
  // True if the line begins or ends a namespace.
  bool read(const std::string& code, std::string_view original) {
    static const std::regex kBegin(R"(^(?:inline )?namespace\s*([\w:]*)\s*\{\s*$)");
    if (std::smatch match; std::regex_match(code, match, kBegin)) {
      names_.push_back(match[1]);
      return true;
    }
    const bool ends = original.starts_with("}  // namespace");
    if (ends && !names_.empty()) names_.pop_back();
    return ends;
  }

  // Nothing within an anonymous namespace.
  std::optional<std::string> qualified(const std::string& name) const {
    std::string out;
    for (const std::string& one : names_) {
      if (one.empty()) return std::nullopt;
      out += one + "::";
    }
    return out + name;
  }

 private:
  std::vector<std::string> names_;
};

std::vector<Definition> types_of(const SourceFile& file) {
  static const std::regex kType(
      R"(^(?:template <.*> )?(?:class|struct|union|enum|enum class)(?: \w+\([^)]*\))*)"
      R"( (\w+)(?: final)?(?: : .*)?(?: \{.*)?$)");
  const std::string code = code_only(file.text);
  const auto original = lines_of(file.text);
  const auto lines = lines_of(code);
  Namespaces namespaces;
  std::vector<Definition> out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line(lines[i]);
    if (namespaces.read(line, original[i])) continue;
    std::smatch match;
    if (!std::regex_match(line, match, kType)) continue;
    if (auto name = namespaces.qualified(match[1])) out.push_back({*name, file.path, i + 1});
  }
  return out;
}

}  // namespace

std::vector<std::string> duplicate_types(const std::vector<SourceFile>& files) {
  std::map<std::string, Definition> first;
  std::vector<std::string> out;
  for (const SourceFile& file : files) {
    for (Definition& type : types_of(file)) {
      const auto [known, added] = first.try_emplace(type.name, type);
      if (added || known->second.path == type.path) continue;
      out.push_back(type.path + ":" + std::to_string(type.line) + ": " + type.name +
                    " is also a type of " + known->second.path +
                    ": rename one of them, or move it to an anonymous namespace");
    }
  }
  return out;
}

}  // namespace mgpu::test
