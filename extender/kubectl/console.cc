#include "extender/kubectl/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "common/base/text.h"

namespace mgpu::kubectl {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Controls (Cc), formats (Cf), separators of lines and paragraphs, fillers that look like blanks,
// selectors of variants, and private or unassigned characters that have no agreed appearance.
constexpr std::array<Range, 25> kSanitized{
    {{0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},
     {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
     {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
     {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
     {0xE000, 0xF8FF},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
     {0xFFF0, 0xFFFF},   {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
     {0xE0000, 0x10FFFF}}};

bool is_harmful(std::uint32_t code) {
  return std::ranges::any_of(
      kSanitized, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

// REQUIRES: `sequence` is well-formed UTF-8 of one character.
std::uint32_t code_of(std::string_view sequence) {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(sequence[at]); };
  if (sequence.size() == 1) return byte(0);
  std::uint32_t code = byte(0) & (0x7FU >> sequence.size());
  for (std::size_t i = 1; i < sequence.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

void print_to(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool has_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = lower_case(environment_variable(name));
    if (!locale.empty()) return locale.ends_with("utf-8") || locale.ends_with("utf8");
  }
  return false;
}

Console process_console() {
  winsize window{};
  const bool has_window = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
  return {.print = [](std::string_view text) { print_to(stdout, text); },
          .print_error = [](std::string_view text) { print_to(stderr, text); },
          .colors = ::isatty(STDOUT_FILENO) == 1 && environment_variable("NO_COLOR").empty() &&
                    environment_variable("TERM") != "dumb",
          .width = has_window ? std::size_t{window.ws_col} : 0,
          .utf8 = has_utf8_locale()};
}

std::string sanitize_for_terminal(std::string_view text, std::size_t bytes_max) {
  const std::string_view shown = cut_text(text, bytes_max);
  std::string out;
  for (std::size_t i = 0; i < shown.size();) {
    const std::size_t length = utf8_sequence_at(shown, i);
    if (length == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{{{:02x}}}", static_cast<std::uint8_t>(shown[i]));
      ++i;
      continue;
    }
    const std::string_view character = shown.substr(i, length);
    const std::uint32_t code = code_of(character);
    if (is_harmful(code)) {
      fmt::format_to(std::back_inserter(out), "\\u{{{:x}}}", code);
    } else {
      out += character;
    }
    i += length;
  }
  return out + (shown.size() < text.size() ? "..." : "");
}

std::string colored(std::string_view text, Color color, bool colors) {
  constexpr std::array<int, 5> kCodes = {0, 32, 33, 31, 34};
  if (!colors || color == Color::kNone) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(color)], text);
}

void add_output_flag(Options& options, std::string& target,
                     const std::vector<std::string>& formats) {
  target = formats.front();
  options.add_choice("o,output", "Format of the output.", target, formats);
}

void remove_kind(std::string_view kind, std::vector<std::string>& names) {
  for (std::string& name : names) {
    const std::size_t slash = name.find('/');
    std::string_view before = std::string_view(name).substr(0, slash);
    if (before.ends_with('s')) before.remove_suffix(1);
    if (slash != name.npos && before == kind) name.erase(0, slash + 1);
  }
}

}  // namespace mgpu::kubectl
