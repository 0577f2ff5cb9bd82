// What the pages of a card say, for those who show it: in a container the library in the place of
// NVML, on the node the plugin. A look takes no slot and writes nothing. It reads the files and
// does not map them, because whoever cuts a file short that is mapped ends its reader.
#pragma once

#include "plugin/share/page.h"

namespace mgpu::share {

struct Look {
  std::uint64_t limit_bytes = 0;
  // What processes hold that have not ended. At most 2 TiB, whatever is in the page; over the limit
  // if that was lowered or the driver took memory without asking.
  std::uint64_t used_bytes = 0;
  // What the plugin has found beside it, and counts against the limit.
  std::uint64_t overhead_bytes = 0;
};

Failure look_at(const char* folder, const std::uint8_t (&uuid)[16], Look* look);

// What a page counts, with processes that have ended and were not noticed yet.
std::uint64_t total_of(const UsagePage& page);

}  // namespace mgpu::share
