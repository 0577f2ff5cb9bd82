// The commit that a program was built from.
#pragma once

namespace mgpu {

// 12 digits of the hash, with "-dirty" after it if files were changed; "unknown" in builds for
// tests, and where the sources do not contain it. commit.cmake generates the definition. It is the
// only source that changes with each commit.
extern const char* const kBuildCommit;

}  // namespace mgpu
