// CDI specs that NVIDIA's toolkit has written on the node (nvidia-ctk cdi generate). The edits for
// all of their devices have the driver's files as NVIDIA selects them, and the hooks that go with
// them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/cards/driver/driver_files.h"

namespace mgpu::plugin {

// The edits for all devices of a spec, in YAML or JSON, of the kind nvidia.com/gpu. Fields that
// `Edits` does not have are skipped. Errors: one sentence that names the field, the value and what
// was expected.
Result<Edits> parse_toolkit_spec(std::string_view text);

// Why no container should get these edits: a file is not on the node any more, or libcuda is of
// another driver than the kernel module. Empty: they can be used.
std::string why_not_usable(const DriverPlace& place, const Edits& edits);

// The specs of one node. Not thread-safe.
class ToolkitSpecs {
 public:
  // The edits of the first usable spec of a usual name in /var/run/cdi or /etc/cdi of the node.
  // Empty if no spec can be used. The log says which one is used, and why another one is not, each
  // time that this changes.
  std::optional<Edits> find(const DriverPlace& place);

 private:
  struct Spec {
    std::string text;  // that was read
    Result<Edits> edits;
    std::optional<std::string> said;  // the problem in the log, empty for none
  };
  Spec* read(const DriverPlace& place, const std::string& path);
  static void say(const std::string& path, Spec& spec, const std::string& problem);

  std::map<std::string, Spec> specs_;  // by path on the node
};

}  // namespace mgpu::plugin
