#include "plugin/containers/pod_processes.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>

#include "common/base/files.h"
#include "plugin/monitor/cgroup.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace fs = std::filesystem;

std::set<PodUid> PodProcesses::pods() const {
  std::set<PodUid> pods;
  std::error_code ignored;
  fs::directory_iterator entries(proc_folder_, ignored);
  while (entries != fs::directory_iterator()) {
    const std::string name = entries->path().filename();
    entries.increment(ignored);
    const bool is_process =
        std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!is_process) continue;
    const auto text = read_file(proc_folder_ + "/" + name + "/cgroup", kProcFileBytesMax);
    const auto container = text ? container_of(*text) : std::nullopt;
    if (container) pods.insert(container->uid);
  }
  return pods;
}

}  // namespace mgpu::plugin
