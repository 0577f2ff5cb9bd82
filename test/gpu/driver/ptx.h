// What the fake driver reads of a module that is text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgpu::fake_gpu {

struct PtxGlobal {
  std::string name;
  std::uint64_t bytes = 0;
};

// Variables of the module in the memory of the card, with their sizes.
std::vector<PtxGlobal> ptx_globals(const std::string& text);
// Whether it has a kernel of this name.
bool has_entry(const std::string& text, const std::string& name);

}  // namespace mgpu::fake_gpu
