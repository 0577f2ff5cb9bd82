// A minimal parser of C++ sources for the rules of the repository. Pure, except read_sources().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::test {

struct SourceFile {
  std::string path;  // relative to the repository, "common/base/units.h"
  std::string text;
};

// All files under `folder` whose names have one of these endings, sorted by path.
std::vector<SourceFile> read_sources(const std::string& root, const std::string& folder,
                                     const std::vector<std::string>& endings);

std::vector<std::string_view> lines_of(std::string_view text);

// `text` with blanks in place of comments and literals. Lines are kept.
std::string code_only(std::string_view text);

struct Include {
  std::size_t line;  // from 1
  std::string path;
  bool angled;
};
std::vector<Include> includes_of(const SourceFile& file);

struct Function {
  std::size_t line;    // the first line, from 1
  std::size_t length;  // the number of lines
};
// Functions and methods, which have a '(' before their brace, unlike types and namespaces.
std::vector<Function> functions_of(const SourceFile& file);

// True if `text` contains `word` as a whole word.
bool has_word(std::string_view text, std::string_view word);

}  // namespace mgpu::test
