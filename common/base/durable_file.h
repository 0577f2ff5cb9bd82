// Files that are whole or absent, whatever ends the program or the machine: written beside their
// place, forced to disk, renamed. Any thread; one writer for each path at a time.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace mgpu {

enum class Durability {
  kProcess,  // survives the end of this process: atomic, and not forced to disk
  kMachine,  // survives a power failure
};

// Makes the folder where it is missing. Errors: one sentence with the path and what the system
// said; then the old file is as it was.
Result<void> write_file(const std::string& path, std::string_view text, Durability durability);

// A file that is not there is no error.
Result<void> remove_file(const std::string& path);

bool file_exists(const std::string& path);

// The suffix of a file that is being written. A CDI reader looks at .json and .yaml only.
inline constexpr std::string_view kPartSuffix = ".part";

}  // namespace mgpu
