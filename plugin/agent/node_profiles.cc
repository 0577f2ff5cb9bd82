#include "plugin/agent/node_profiles.h"

#include <algorithm>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu::plugin {

NodeProfiles::NodeProfiles(std::vector<Profile> profiles, std::string label, std::string file)
    : profiles_(std::move(profiles)), label_(std::move(label)), file_(std::move(file)) {}

bool NodeProfiles::restore() {
  const auto name = read_file(file_, kCardTextMax, "the name of the profile");
  if (!name) return false;
  const auto found = std::ranges::find(profiles_, *name, &Profile::name);
  if (found == profiles_.end() && !name->empty()) return false;
  const MutexLock lock(mutex_);
  chosen_ = true;
  if (found != profiles_.end()) current_ = *found;
  return true;
}

bool NodeProfiles::choose(const kube::StringMap& labels) {
  auto profile = choose_profile(profiles_, labels, label_);
  std::string problem;
  bool changed = false;
  if (!profile) problem = cut_text(profile.error().message, kProfileProblemMax);
  {
    const MutexLock lock(mutex_);
    const bool same = chosen_ && problem == problem_ && (!profile || *profile == current_);
    if (same && kept_) return false;
    changed = !same;
    chosen_ = true;
    problem_ = problem;
    if (profile) current_ = *profile;
  }
  // Without the lock: writing to the disk may take long, and readers of the profile would wait.
  if (profile) keep(*profile, changed);
  return changed;
}

void NodeProfiles::keep(const std::optional<Profile>& profile, bool is_first_try) {
  const auto kept = write_file(file_, profile ? profile->name : "", Durability::kMachine);
  kept_ = static_cast<bool>(kept);
  if (!kept && is_first_try)
    log_warn("the name of the profile was not saved", {{"problem", kept.error().message}});
}

std::optional<Profile> NodeProfiles::current() const {
  const MutexLock lock(mutex_);
  return current_;
}

std::string NodeProfiles::problem() const {
  const MutexLock lock(mutex_);
  return problem_;
}

}  // namespace mgpu::plugin
