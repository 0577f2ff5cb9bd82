// C++ source text, taken apart just enough to check the repository's own rules. Pure but for
// read_sources().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::test {

struct SourceFile {
  std::string path;  // from the repository's root, "common/base/units.h"
  std::string text;
};

// Every file under `folder` of the repository whose name ends in one of `endings`, by path.
std::vector<SourceFile> read_sources(const std::string& root, const std::string& folder,
                                     const std::vector<std::string>& endings);

std::vector<std::string_view> lines_of(std::string_view text);

// `text` with every character of comments and literals made blank; lines keep their places.
std::string code_only(std::string_view text);

struct Include {
  std::size_t line;  // from 1
  std::string path;
  bool angled;
};
std::vector<Include> includes_of(const SourceFile& file);

struct Function {
  std::size_t line;    // where it begins, from 1
  std::size_t length;  // lines, from its first to its closing brace
};
// Functions and methods, told from types and namespaces by the '(' before their brace.
std::vector<Function> functions_of(const SourceFile& file);

// True when `word` stands in `text` with no letter, digit or underscore beside its own.
bool has_word(std::string_view text, std::string_view word);

}  // namespace mgpu::test
