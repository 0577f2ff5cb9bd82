#include "plugin/containers/share_library.h"

#include <algorithm>

#include "plugin/containers/share_pages.h"

namespace mgpu::plugin {
namespace {

// Where the libraries find NVIDIA's (plugin/share) and the pages.
constexpr std::string_view kRealNvml = "/usr/lib/mgpu/libmgpu-nvml-driver.so";
// Where the first library finds the second one.
constexpr std::string_view kNvml = "/usr/lib/mgpu/libmgpu-nvml.so";
constexpr std::string_view kPages = "/run/mgpu/share";
// Images of CUDA have a libcuda for older drivers here, which NVIDIA's hook may choose.
constexpr std::string_view kCompatibility = "/usr/local/cuda/compat";

// Whether it is "libcuda.so", "libcuda.so.1" or "libcuda.so.580.95.05", in any folder.
bool is_library(std::string_view path, std::string_view name) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.starts_with(name) && (path.size() == name.size() || path[name.size()] == '.');
}

// Replaces all files of the library, and mounts the first of them as `real`. One for programs of 32
// bits is replaced as well, and these find none then.
void replace(std::string_view name, const std::string& by, std::string_view real,
             const Edits& shared, std::vector<Mount>& mounts) {
  for (const Mount& mount : shared.mounts) {
    if (is_library(mount.container_path, name)) mounts.push_back({by, mount.container_path});
  }
  const auto of_64_bits = [&](const Mount& mount) {
    const std::string& path = mount.container_path;
    return is_library(path, name) && path.find("i386") == path.npos &&
           path.find("lib32") == path.npos;
  };
  const auto found = std::ranges::find_if(shared.mounts, of_64_bits);
  if (found != shared.mounts.end()) mounts.push_back({found->host_path, std::string(real)});
}

}  // namespace

bool has_share(const Record& record) {
  return std::ranges::any_of(record.cards,
                             [](const CardGrant& card) { return card.share.core < kWholeCard; });
}

Result<std::vector<Mount>> library_mounts(const ShareLibrary& library, const Edits& shared) {
  if (!library.problem.empty()) return error(library.problem);
  std::vector<Mount> mounts;
  replace("libcuda.so", library.cuda, kDriverCuda, shared, mounts);
  if (mounts.empty()) {
    return error(
        "containers get no libcuda.so.1 from the driver of this node, so that nothing would limit "
        "this one");
  }
  const std::size_t of_cuda = mounts.size();
  replace("libnvidia-ml.so", library.nvml, kRealNvml, shared, mounts);
  if (mounts.size() > of_cuda) mounts.push_back({library.nvml, std::string(kNvml)});
  mounts.push_back({.host_path = library.empty, .container_path = std::string(kCompatibility)});
  return mounts;
}

Result<std::vector<Mount>> share_mounts(const ShareLibrary& library, const Record& record,
                                        const Edits& shared) {
  auto mounts = library_mounts(library, shared);
  if (!mounts) return mounts;
  const std::string pages = library.pages + "/" + record.id.str();
  mounts->push_back({.host_path = pages, .container_path = std::string(kPages), .no_exec = true});
  // Mounts of the pod lie above these files if they are longer than the path of the folder.
  for (const CardGrant& grant : record.cards) {
    for (const std::string file : {"/limits", "/usage", "/turn", "/activity"}) {
      if (!library.compute && (file == "/turn" || file == "/activity")) continue;
      const std::string path = "/" + page_folder(grant.uuid) + file;
      mounts->push_back({.host_path = pages + path,
                         .container_path = std::string(kPages) + path,
                         .read_only = file == "/limits" || file == "/turn",
                         .no_exec = true});
    }
  }
  return mounts;
}

}  // namespace mgpu::plugin
