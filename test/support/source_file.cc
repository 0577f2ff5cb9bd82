#include "test/support/source_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "common/base/text.h"

namespace mgpu::test {
namespace {

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool ends_in_one_of(const std::string& name, const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const std::string& ending) { return name.ends_with(ending); });
}

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// One past the end of the literal or comment that starts at `at`, or `at` if none starts there.
std::size_t end_of_quoted(std::string_view text, std::size_t at, char quote) {
  std::size_t i = at + 1;
  while (i < text.size() && text[i] != quote && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

std::size_t end_of_raw(std::string_view text, std::size_t at) {
  const std::size_t open = text.find('(', at);
  if (open == std::string_view::npos) return text.size();
  const std::string close = ")" + std::string(text.substr(at + 2, open - at - 2)) + "\"";
  const std::size_t end = text.find(close, open);
  return end == std::string_view::npos ? text.size() : end + close.size();
}

std::size_t end_of_blank(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  const bool after_word = at > 0 && is_word_char(text[at - 1]);
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (rest.starts_with("/*")) {
    const std::size_t end = text.find("*/", at + 2);
    return end == std::string_view::npos ? text.size() : end + 2;
  }
  if (rest.starts_with("R\"") && !after_word) return end_of_raw(text, at);
  if (rest[0] == '"') return end_of_quoted(text, at, '"');
  if (rest[0] == '\'' && !after_word) return end_of_quoted(text, at, '\'');  // not 16'000
  return at;
}

std::size_t line_at(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// An open brace and the statement before it.
struct Block {
  std::size_t start;
  bool is_function;
  bool within_function;
};

// A preprocessor line is not part of the statement that follows it.
bool is_directive(std::string_view code, std::size_t statement) {
  const std::size_t first = code.find_first_not_of(" \n\t", statement);
  return first != std::string_view::npos && code[first] == '#';
}

bool opens_function(std::string_view statement) {
  const std::size_t first = statement.find_first_not_of(" \n\t");
  if (first == std::string_view::npos) return false;
  for (const char* keyword : {"namespace", "enum", "union", "extern"}) {
    if (statement.substr(first).starts_with(keyword)) return false;
  }
  return statement.find('(') != std::string_view::npos;
}

}  // namespace

std::vector<SourceFile> read_sources(const std::string& root, const std::string& folder,
                                     const std::vector<std::string>& endings) {
  namespace fs = std::filesystem;
  std::vector<SourceFile> files;
  if (!fs::exists(fs::path(root) / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(root) / folder)) {
    if (!entry.is_regular_file() || !ends_in_one_of(entry.path().string(), endings)) continue;
    files.push_back({fs::relative(entry.path(), root).generic_string(), read_whole(entry.path())});
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_line(text));
  return lines;
}

std::string code_only(std::string_view text) {
  std::string code(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_blank(text, at);
    for (std::size_t i = at; i < end; ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    at = std::max(end, at + 1);
  }
  return code;
}

std::vector<Include> includes_of(const SourceFile& file) {
  const std::string code = code_only(file.text);
  const auto raw_lines = lines_of(file.text);
  const auto code_lines = lines_of(code);
  std::vector<Include> includes;
  for (std::size_t i = 0; i < code_lines.size(); ++i) {
    if (!code_lines[i].starts_with("#include")) continue;
    const std::string_view line = raw_lines[i];
    const std::size_t open = line.find_first_of("<\"");
    if (open == std::string_view::npos) continue;
    const std::size_t close = line.find_first_of(">\"", open + 1);
    includes.push_back(
        {i + 1, std::string(line.substr(open + 1, close - open - 1)), line[open] == '<'});
  }
  return includes;
}

std::vector<Function> functions_of(const SourceFile& file) {
  const std::string code = code_only(file.text);
  std::vector<Function> functions;
  std::vector<Block> open;
  std::size_t statement = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char c = code[at];
    if (c == '{') {
      const bool within = !open.empty() && (open.back().is_function || open.back().within_function);
      const std::string_view before = std::string_view(code).substr(statement, at - statement);
      const std::size_t start = code.find_first_not_of(" \n\t", statement);
      open.push_back({start, opens_function(before), within});
    } else if (c == '}' && !open.empty()) {
      const Block block = open.back();
      open.pop_back();
      if (block.is_function && !block.within_function) {
        const std::size_t line = line_at(code, block.start);
        functions.push_back({line, line_at(code, at) - line + 1});
      }
    }
    const bool directive_ends = c == '\n' && is_directive(code, statement);
    if (c == '{' || c == '}' || c == ';' || directive_ends) statement = at + 1;
  }
  return functions;
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool begins = at == 0 || !is_word_char(text[at - 1]) || !is_word_char(word.front());
    const std::size_t end = at + word.size();
    const bool ends = end == text.size() || !is_word_char(text[end]) || !is_word_char(word.back());
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace mgpu::test
