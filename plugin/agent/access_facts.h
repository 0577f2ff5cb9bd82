// Finds out who else gives cards of this node to containers.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "common/base/ids.h"
#include "common/kube/transport.h"
#include "plugin/node/limits.h"
#include "plugin/node/other_access.h"

namespace mgpu::plugin {

struct AccessPlace {
  NodeName node;
  std::string runtime_socket;
  std::string cdi_folder;
  std::string node_root;
  std::chrono::milliseconds timeout = kAccessTimeout;
};

// Queries the container runtime and the API server, and reads the settings of NVIDIA's container
// toolkit. A query takes about `place.timeout` at most; AccessFacts::problems has what got no
// answer. `stopping` is called before each query. REQUIRES: not on the transport's executor.
AccessFacts access_facts(const AccessPlace& place, kube::Transport& transport,
                         const std::function<bool()>& stopping);

}  // namespace mgpu::plugin
