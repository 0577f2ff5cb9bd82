// What the container runtime can do, asked over CRI (kubernetes
// staging/src/k8s.io/cri-api/pkg/apis/ runtime/v1/api.proto: Version, Status).
#pragma once

#include <chrono>
#include <string>

#include "common/base/result.h"

namespace mgpu::plugin {

struct Runtime {
  std::string name;     // "containerd", "cri-o"
  std::string version;  // "v2.2.9"
  bool cdi = false;     // resolves CDI names from `cdi_dir`
  std::string why;      // one sentence for the log: why `cdi` is what it is
};

// `cdi_dir`: where we write our spec. Errors: the socket does not answer; one sentence.
//
// containerd says in Status(verbose) info["config"] whether "enableCDI" is on and which
// "cdiSpecDirs" it reads (1.7: off by default, 2.0: on; absent from 2.4: always on). CRI-O resolves
// CDI from 1.24.
Result<Runtime> ask_runtime(const std::string& socket, const std::string& cdi_dir,
                            std::chrono::milliseconds timeout);

}  // namespace mgpu::plugin
