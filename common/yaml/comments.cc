#include "common/yaml/comments.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/yaml/limits.h"
#include "common/yaml/read.h"

namespace mgpu::yaml {
namespace {

struct Line {
  std::string_view text{};
  std::size_t indent = 0;      // of a blank line, that of the next one with a text
  std::string key{};           // without comment, blanks and quotes, by which lines are compared
  std::string_view comment{};  // with the blanks in front of it
  bool is_between = false;     // a comment or a blank line
  std::vector<std::string_view> above{};  // those directly above
};

// The key of the end, which no line has.
constexpr const char* kEnd = "\n";

bool is_one_of(char c, std::string_view some) {
  return some.find(c) != some.npos;
}

// Where the comment of the line begins, with the blanks in front of it.
std::size_t comment_at(std::string_view line) {
  char quote = 0;
  char before = ' ';
  for (std::size_t i = 0; i < line.size(); before = line[i++]) {
    const char c = line[i];
    if (quote == '"' && c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (is_one_of(c, "\"'") && is_one_of(before, " \t[{,:")) {
      quote = c;
    } else if (c == '#' && is_one_of(before, " \t")) {
      const std::size_t end = line.substr(0, i).find_last_not_of(" \t");
      return end == line.npos ? 0 : end + 1;
    }
  }
  return line.size();
}

// Whether the lines below that are indented more are a text: "key: |-".
bool begins_block(std::string_view content) {
  const std::size_t end = content.find_last_not_of("+-0123456789");
  return end != content.npos && end > 0 && is_one_of(content[end], "|>") && content[end - 1] == ' ';
}

std::vector<Line> split(std::string_view text) {
  std::vector<Line> lines;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back({.text = line});
  }
  std::size_t indent = 0;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const std::size_t first = line->text.find_first_not_of(" \t");
    if (first != line->text.npos) indent = first;
    line->indent = indent;
  }
  return lines;
}

// In the lines of block texts nothing is a comment.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines = split(text);
  std::size_t block = text.npos;  // the indent of the line above the block
  for (Line& line : lines) {
    if (block != text.npos && line.indent <= block) block = text.npos;
    const bool in_block = block != text.npos;
    const std::size_t end = in_block ? line.text.size() : comment_at(line.text);
    for (const char c : line.text.substr(0, end))
      if (!is_one_of(c, " \t\"'")) line.key += c;
    line.comment = line.text.substr(end);
    line.is_between = !in_block && line.key.empty();
    if (!in_block && begins_block(line.text.substr(0, end))) block = line.indent;
  }
  return lines;
}

// The lines with content, each with the lines between it and the one before, and an end.
std::vector<Line> contents_of(std::string_view text) {
  std::vector<Line> contents;
  std::vector<std::string_view> above;
  for (Line& line : lines_of(text)) {
    if (line.is_between) {
      const std::size_t first = line.text.find_first_not_of(" \t");
      above.push_back(first == line.text.npos ? std::string_view() : line.text.substr(first));
    } else {
      line.above = std::exchange(above, {});
      contents.push_back(std::move(line));
    }
  }
  contents.push_back({.key = kEnd, .above = std::move(above)});
  return contents;
}

// How many lines of both sides there are before the next equal ones, as few as possible.
struct Difference {
  std::size_t before = 0;
  std::size_t after = 0;
};
std::optional<Difference> difference_of(std::span<const Line> before, std::span<const Line> after) {
  for (std::size_t sum = 0; sum <= kLinesComparedMax; ++sum) {
    for (std::size_t skipped = 0; skipped <= sum; ++skipped) {
      const std::size_t others = sum - skipped;
      if (skipped >= before.size() || others >= after.size()) continue;
      if (before[skipped].key == after[others].key) return Difference{skipped, others};
    }
  }
  return std::nullopt;
}

void add_above(const Line& from, std::size_t indent, std::string& out) {
  for (const std::string_view line : from.above)
    out += (line.empty() ? "" : std::string(indent, ' ')) + std::string(line) + "\n";
}

// Empty if the texts differ too much.
std::string merged(std::span<const Line> before, std::span<const Line> after) {
  std::string out;
  while (!after.empty()) {
    const auto difference = difference_of(before, after);
    if (!difference) return "";
    // What is between lines that are gone stays above those that replace them.
    for (const Line& gone : before.first(difference->before))
      add_above(gone, after.front().indent, out);
    for (const Line& added : after.first(difference->after)) out += std::string(added.text) + "\n";
    before = before.subspan(difference->before);
    after = after.subspan(difference->after);
    add_above(before.front(), after.front().indent, out);
    if (after.size() > 1)
      out += std::string(after.front().text) + std::string(before.front().comment) + "\n";
    before = before.subspan(1);
    after = after.subspan(1);
  }
  return out;
}

}  // namespace

std::string with_comments(const std::string& written, std::string_view original) {
  std::string text = merged(contents_of(original), contents_of(written));
  const auto with = read_documents(text);
  const auto without = read_documents(written);
  return with && without && *with == *without ? text : written;
}

}  // namespace mgpu::yaml
