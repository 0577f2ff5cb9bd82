// libmgpu-cuda.so and libmgpu-nvml.so in containers with parts of cards, in the place of NVIDIA's
// libraries of these names. Nothing is preloaded and no variable decides: the container has no
// other file under these paths.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/turns/turns.h"

namespace mgpu::plugin {

// Paths on the node.
struct ShareLibrary {
  std::string cuda;
  std::string nvml;
  std::string empty;                  // a folder
  std::string pages;                  // SharePages::folder_of() without the allocation
  std::optional<TurnRule> compute{};  // whether and how it is shared out by turns
  std::string problem{};              // why containers cannot get it; one sentence
};

// Whether the container gets the library: it has less than all the compute of one of its cards.
bool has_share(const Record& record);

// Where the library in a container finds the driver's libcuda (plugin/share/names.cc).
inline constexpr std::string_view kDriverCuda = "/usr/lib/mgpu/libmgpu-cuda-driver.so";

// What takes the place of NVIDIA's libraries in `shared`, which every container with a card gets.
// Errors: those of share_mounts().
Result<std::vector<Mount>> library_mounts(const ShareLibrary& library, const Edits& shared);

// The mounts of a container with a share. `shared` is what every container with a card gets: its
// mounts of NVIDIA's libraries are replaced by those with the same paths in the container, since
// the edits of a CDI device follow those of its spec. Errors: there is no libcuda to replace; one
// sentence.
Result<std::vector<Mount>> share_mounts(const ShareLibrary& library, const Record& record,
                                        const Edits& shared);

}  // namespace mgpu::plugin
