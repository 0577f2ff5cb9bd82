// Finds types that have the same name in the same namespace in several sources. The compiler and
// the linker accept such programs, which then use the inline functions of one of the types for
// both.
#pragma once

#include <string>
#include <vector>

#include "test/support/source_file.h"

namespace mgpu::test {

// Classes, structs, enums and unions outside of classes, functions and anonymous namespaces. A
// complaint is "path:line: problem and remedy", and names both sources.
std::vector<std::string> duplicate_types(const std::vector<SourceFile>& files);

}  // namespace mgpu::test
