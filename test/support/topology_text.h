// The links of a machine as `nvidia-smi topo -m` shows them.
#pragma once

#include <string_view>

#include "common/contract/card_links.h"

namespace mgpu::test {

// The lines "GPU<n>\t<link>...", of which X is the card itself. Text of another form aborts the
// test program.
CardLinks links_of(std::string_view topology);
}  // namespace mgpu::test
