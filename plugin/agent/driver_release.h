// Whether the driver is released, which the label of the Node object requests, and mgpu-mps follows
// by a file (plugin/cards/driver/release_marker.h).
#pragma once

#include <string>

#include "plugin/node/node_publisher.h"

namespace mgpu::plugin {

class DriverRelease {
 public:
  // `publisher` outlives it. `label` is its key.
  DriverRelease(const NodePublisher& publisher, std::string label, std::string run_folder);

  // Returns why the driver is not used; empty: it is. Lets mgpu-mps follow. One thread.
  std::string reason();

 private:
  const NodePublisher& publisher_;
  const std::string label_;
  const std::string run_folder_;
  std::string logged_problem_;
};

}  // namespace mgpu::plugin
