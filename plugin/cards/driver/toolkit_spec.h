// CDI specs that NVIDIA's toolkit has written on the node (nvidia-ctk cdi generate). The edits for
// all of their devices have the driver's files as NVIDIA selects them, and the hooks that go with
// them.
#pragma once

#include <cstdint>
#include <filesystem>
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
  // The edits of nvidia.yaml or nvidia.json in /var/run/cdi or /etc/cdi of the node, else of the
  // first other spec of that kind there, by name. None: no spec can be used. The log says which one
  // is used, and why another one is not, each time that this changes.
  std::optional<Edits> find(const DriverPlace& place);

 private:
  struct Spec {
    std::string text;  // that was read
    Result<Edits> edits;
    std::optional<std::string> said;  // the problem in the log, empty for none
  };
  // A file that may be a spec of another program.
  struct OtherFile {
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type changed;
    bool is_toolkit_spec = false;
  };
  Spec* read(const DriverPlace& place, const std::string& path);
  OtherFile look(const std::string& file) const;
  // Adds the paths of the specs of other names in this folder, in the order in which they are used.
  void add_others(const DriverPlace& place, const std::string& folder,
                  std::vector<std::string>& specs, std::map<std::string, OtherFile>& others);
  static void say(const std::string& path, Spec& spec, const std::string& problem);

  std::map<std::string, Spec> specs_;        // by path on the node
  std::map<std::string, OtherFile> others_;  // by path for this process
  bool logged_too_many_ = false;
};

}  // namespace mgpu::plugin
