#include "plugin/agent/driver_release.h"

#include <utility>

#include "common/base/log.h"
#include "plugin/cards/driver/release_marker.h"

namespace mgpu::plugin {

DriverRelease::DriverRelease(const NodePublisher& publisher, std::string label,
                             std::string run_folder)
    : publisher_(publisher), label_(std::move(label)), run_folder_(std::move(run_folder)) {}

std::string DriverRelease::reason() {
  // Before the labels of the node are known, the marker of an earlier process stays as it is.
  if (publisher_.labels()) {
    const auto marked = mark_release(run_folder_, publisher_.release_requested());
    const std::string problem = marked ? "" : marked.error().message;
    if (problem != std::exchange(logged_problem_, problem) && !problem.empty()) {
      log_error("mgpu-mps does not see the release of the driver", {{"problem", problem}});
    }
  }
  if (!publisher_.labels() && is_release_marked(run_folder_)) {
    return "the driver was released before this process started, and the labels of the node have "
           "not been read yet";
  }
  if (!publisher_.release_requested()) return {};
  return "the node has the label " + label_ + "=true";
}

}  // namespace mgpu::plugin
