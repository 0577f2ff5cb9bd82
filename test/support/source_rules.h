// The rules for the sources of this repository: which folder may include which other, where each
// library may be used, what pure code must not use, and their form. A complaint is "path:line:
// problem and remedy". The tables are in source_rules.cc.
#pragma once

#include <string>
#include <vector>

#include "test/support/source_file.h"

namespace mgpu::test {

// Directions between folders, and the home of each library.
std::vector<std::string> include_complaints(const SourceFile& file);

// Pure code has no I/O, clocks, locks, randomness or logs.
std::vector<std::string> purity_complaints(const SourceFile& file);

// Calls that have a better replacement, and words that mark unfinished work.
std::vector<std::string> wording_complaints(const SourceFile& file);

// Columns, blanks at line ends, "#pragma once", and the number of functions of a class of the
// product.
std::vector<std::string> form_complaints(const SourceFile& file);

// Functions of more than 70 lines. They are permitted where a reader follows them more easily than
// their parts.
std::vector<std::string> length_warnings(const SourceFile& file);

// Headers that none of the files include.
std::vector<std::string> dead_headers(const std::vector<SourceFile>& files);

}  // namespace mgpu::test
