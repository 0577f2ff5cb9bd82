#include "plugin/cards/nvml/instance_caps.h"

#include "common/base/files.h"
#include "common/base/text.h"
#include "plugin/cards/driver/driver_files.h"

namespace mgpu::plugin::nvml {
namespace {

// The file has a line for each device that all cards can have: some 15 KB for a card.
constexpr std::size_t kCapsBytesMax = std::size_t{1} << 20;

}  // namespace

InstanceCaps read_instance_caps(const std::string& node_root) {
  const auto text = read_file(joined(node_root, "/proc/driver/nvidia-caps/mig-minors"),
                              kCapsBytesMax, "minor numbers of MIG devices");
  return text ? parse_instance_caps(*text) : InstanceCaps();
}

InstanceCaps parse_instance_caps(std::string_view text) {
  InstanceCaps caps;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t space = line.find(' ');
    if (space == line.npos || space == 0) continue;
    const auto minor = parse_number<unsigned>(line.substr(space + 1));
    if (minor) caps.emplace(line.substr(0, space), *minor);
  }
  return caps;
}

}  // namespace mgpu::plugin::nvml
