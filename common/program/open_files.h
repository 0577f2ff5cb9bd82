// The limit of open files of the process (RLIMIT_NOFILE), and the connections that it allows.
#pragma once

#include <cstddef>

namespace mgpu {

// Raises the soft limit to kOpenFilesWanted, or to the hard limit if that is lower, and returns the
// soft limit. It never lowers the limit. REQUIRES: no other thread has been started.
std::size_t raise_open_files_limit();

// The connections of clients that a listener may have: at most `wanted`, and not more than
// `open_files` allows besides `other_connections` and the other files of the process; at least
// kConnectionsMin. Pure.
std::size_t connections_within(std::size_t open_files, std::size_t wanted,
                               std::size_t other_connections);

}  // namespace mgpu
