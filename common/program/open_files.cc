#include "common/program/open_files.h"

#include <sys/resource.h>

#include <algorithm>

#include "common/program/limits.h"

namespace mgpu {

std::size_t raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t wanted = std::min<rlim_t>(kOpenFilesWanted, limit.rlim_max);
  if (limit.rlim_cur >= wanted) return limit.rlim_cur;
  const rlimit raised{.rlim_cur = wanted, .rlim_max = limit.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit.rlim_cur;
  return raised.rlim_cur;
}

std::size_t connections_within(std::size_t open_files, std::size_t wanted,
                               std::size_t other_connections) {
  const std::size_t used = kOpenFilesKept + other_connections;
  const std::size_t left = open_files > used ? open_files - used : 0;
  return std::max(std::min(wanted, left), kConnectionsMin);
}

}  // namespace mgpu
