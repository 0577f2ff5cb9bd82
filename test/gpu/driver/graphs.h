// Memory of graphs that allocate.
#pragma once

#include <cstdint>

namespace mgpu::fake_gpu {

// An allocation of a graph has been freed by the program.
void return_to_graphs(int card, std::uint64_t bytes);

}  // namespace mgpu::fake_gpu
