// The outputs of a command in every format, against the files of test/golden/kubectl.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "common/base/files.h"
#include "extender/kubectl/output.h"

namespace mgpu::test {

struct Shown {
  std::string out;
  std::string err;
};

inline Shown shown_as(const kubectl::View& view, const kubectl::ViewFlags& flags, bool terminal,
                      std::size_t width = 0) {
  Shown shown;
  kubectl::Console console{.print = [&](std::string_view text) { shown.out += text; },
                           .print_error = [&](std::string_view text) { shown.err += text; },
                           .colors = terminal,
                           .width = width};
  if (const auto printed = kubectl::show(view, flags, console); !printed) {
    shown.err += printed.error().message;
  }
  return shown;
}

inline Shown shown_as(const kubectl::View& view, const std::string& format, bool terminal) {
  return shown_as(view, kubectl::ViewFlags{.output = format}, terminal);
}

// $MGPU_WRITE_GOLDEN=1 writes the file instead.
inline void expect_golden_text(const std::string& text, const std::string& path) {
  if (std::getenv("MGPU_WRITE_GOLDEN") != nullptr) std::ofstream(path) << text;
  const auto wanted = read_file(path, 1 << 20);
  EXPECT_EQ(text, wanted ? *wanted : wanted.error().message) << path;
}

inline void expect_golden(const kubectl::View& view, const std::string& path) {
  const std::pair<const char*, const char*> formats[] = {{"table", ".table.txt"},
                                                         {"wide", ".wide.txt"},
                                                         {"json", ".json"},
                                                         {"yaml", ".yaml"},
                                                         {"name", ".name.txt"}};
  for (const auto& [format, ending] : formats) {
    expect_golden_text(shown_as(view, format, false).out, path + ending);
  }
  expect_golden_text(shown_as(view, "table", true).out, path + ".terminal.txt");
}

// A text with everything that changes how other text is shown: controls of the terminal, marks of
// direction, markup, bytes that are not UTF-8, and 253 characters.
inline std::string hostile_text() {
  return "\x1b[2J\r\n<script>\u202eevil\u2066\u200b\x9b\xff" + std::string(253, 'x');
}

// Expects that no output of the view has any of these characters, and that no text adds a line.
inline void expect_harmless(const kubectl::View& view, std::size_t rows) {
  for (const char* format : {"table", "wide", "json", "yaml", "name"}) {
    const std::string text = shown_as(view, format, false).out;
    EXPECT_FALSE(text.empty()) << format;
    for (const char c : text) {
      EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << format;
    }
    for (const char* mark : {"\u202e", "\u2066", "\u200b", "\xff", "\x9b", "\x7f"}) {
      EXPECT_EQ(text.find(mark), std::string::npos) << format;
    }
  }
  const std::string table = shown_as(view, "wide", false).out;
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')), rows + 1);
  EXPECT_NE(table.find("\\u{1b}[2J\\u{d}\\u{a}<script>\\u{202e}evil"), std::string::npos);
}

}  // namespace mgpu::test
