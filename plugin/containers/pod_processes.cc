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
namespace {

bool is_process(const std::string& name) {
  return std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

Result<std::set<PodUid>> PodProcesses::pods() const {
  std::set<PodUid> pods;
  std::error_code problem;
  fs::directory_iterator entries(proc_folder_, problem);
  for (; !problem && entries != fs::directory_iterator(); entries.increment(problem)) {
    if (!is_process(entries->path().filename())) continue;
    const auto text = read_file(entries->path() / "cgroup", kProcFileBytesMax);
    std::error_code ended;
    if (!text && fs::exists(entries->path() / "cgroup", ended)) return text.error();
    const auto container = text ? container_of(*text) : std::nullopt;
    if (container) pods.insert(container->uid);
  }
  if (problem) return error("cannot read " + proc_folder_ + ": " + problem.message());
  // The pod of this process, which has no cards, is visible in any process namespace.
  const auto self = read_file(proc_folder_ + "/self/cgroup", kProcFileBytesMax);
  const auto own = self ? container_of(*self) : std::nullopt;
  if (own) pods.erase(own->uid);
  return pods;
}

}  // namespace mgpu::plugin
