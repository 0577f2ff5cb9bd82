#include "common/kube/watch/unreadable_objects.h"

#include "common/kube/limits.h"

namespace mgpu::kube {

bool UnreadableObjects::note(const std::string& why) {
  ++count_;
  if (logged_.size() >= kUnreadableRemembered) logged_.clear();
  return logged_.insert(why).second;
}

}  // namespace mgpu::kube
