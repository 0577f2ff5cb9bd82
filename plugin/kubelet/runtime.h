// The container runtime's support of CDI, read over CRI (kubernetes staging/src/k8s.io/cri-api/pkg/
// apis/runtime/v1/api.proto: Version, Status).
//
// containerd lists in Status(verbose) info["config"] whether "enableCDI" is set and which
// "cdiSpecDirs" it reads (1.7: disabled by default, 2.0: enabled; 2.4: always enabled, and the
// field is gone). CRI-O resolves CDI names from 1.24.
//
// The same text has the handlers of RuntimeClasses ("containerd", "runtimes") and the default one
// (containerd internal/cri/config/config.go). CRI-O does not report them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::plugin {

struct Runtime {
  std::string name;     // "containerd", "cri-o"
  std::string version;  // "v2.2.9"
  bool cdi = false;     // whether it resolves CDI names from `cdi_dir`
  std::string why;      // one sentence with the reason, for the log
  // The handler of pods without a RuntimeClass. Not set: the runtime does not report it, or it runs
  // a program that is not known, as one of the others does.
  std::optional<std::string> default_handler{};
  // The handlers that run NVIDIA's container runtime.
  std::vector<std::string> nvidia_handlers{};
  // Those that run a program that is not known, which may give cards to containers: "kata
  // (io.containerd.kata.v2)".
  std::vector<std::string> unknown_handlers{};
};

// `cdi_dir` is the folder of the plugin's CDI spec. Errors: the socket does not answer.
Result<Runtime> query_runtime(const std::string& socket, const std::string& cdi_dir,
                              std::chrono::milliseconds timeout);

// Decides on the other members. `config` is info["config"] of Status, or empty. Pure.
Runtime runtime_of(std::string name, std::string version, std::string_view config,
                   const std::string& cdi_dir);

}  // namespace mgpu::plugin
