// The repository's rules over its own sources: who may include whom, where each library lives, what
// pure folders may not touch, and sizes. Each complaint is "path:line: what, and what to do
// instead". The tables are in source_rules.cc.
#pragma once

#include <string>
#include <vector>

#include "test/support/source_file.h"

namespace mgpu::test {

// Directions between folders, and a home for each library.
std::vector<std::string> include_complaints(const SourceFile& file);

// Pure code: no I/O, clock, lock, randomness or log.
std::vector<std::string> purity_complaints(const SourceFile& file);

// Calls that have a better replacement, and words that must not stay.
std::vector<std::string> wording_complaints(const SourceFile& file);

// Columns, file and function lengths, blanks at line ends, "#pragma once".
std::vector<std::string> form_complaints(const SourceFile& file);

// Headers of the set that no file of the set includes.
std::vector<std::string> dead_headers(const std::vector<SourceFile>& files);

}  // namespace mgpu::test
