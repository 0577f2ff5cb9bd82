// What the commands print, and how text from the cluster is sanitized before.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/options.h"

namespace mgpu::kubectl {

struct Console {
  std::function<void(std::string_view text)> print;        // to standard output
  std::function<void(std::string_view text)> print_error;  // to standard error
  bool colors = false;    // standard output is a terminal that shows colors
  std::size_t width = 0;  // of the terminal, in columns; 0: it is none
  bool utf8 = false;      // the locale of the environment is one with UTF-8
};

// The console of this process. It has colors if standard output is a terminal, and the environment
// variable NO_COLOR is not set (no-color.org), and TERM is not "dumb".
Console process_console();

// Whether the first of LC_ALL, LC_CTYPE and LANG that is set names a locale with UTF-8.
bool has_utf8_locale();

// The variable of the environment; empty if it is not set.
std::string environment_variable(const char* name);

// `text` on one line, without characters that change how the rest of a terminal or page is shown:
// control characters, marks that change the direction of text, characters without width, and bytes
// that are not UTF-8. Each of them becomes "\u{202e}"; a byte that is not UTF-8 becomes "\x{ff}".
// The result has "..." after `bytes_max` bytes of `text`. Pure.
std::string sanitize_for_terminal(std::string_view text, std::size_t bytes_max);

enum class Color { kNone, kGreen, kYellow, kRed, kBlue };
// `text` in this color if `colors` is true.
std::string colored(std::string_view text, Color color, bool colors);

// Adds -o,--output with these formats, of which the first is the default.
void add_output_flag(Options& options, std::string& target,
                     const std::vector<std::string>& formats);

// "name" for "pod/name" and "pods/name", as -o name prints it, where `kind` is "pod".
void remove_kind(std::string_view kind, std::vector<std::string>& names);

}  // namespace mgpu::kubectl
