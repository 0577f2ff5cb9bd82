// What the fake driver reads of a module that is text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mgpu::fake_gpu {

struct PtxVariable {
  std::string name;
  std::uint64_t bytes = 0;
};

// Variables in ".global" or ".local", with their sizes.
std::vector<PtxVariable> ptx_variables(const std::string& text, const std::string& space);
// Whether it has a kernel of this name.
bool has_entry(const std::string& text, const std::string& name);
// What each thread of a kernel has of its own in the memory of the card.
std::uint64_t ptx_local_bytes(const std::string& text, const std::string& name);

}  // namespace mgpu::fake_gpu
