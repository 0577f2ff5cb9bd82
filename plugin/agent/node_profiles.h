// The profile of this node among those of --profiles, which follows the labels of the Node object.
//
//   Unknown --restore(), or the labels are known--> Chosen --other labels--> Chosen
//
// Labels that choose no single profile are a problem, and the profile stays. Its name is kept on
// disk, so that containers start again with it while the API server is unavailable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/kube/objects/objects.h"
#include "plugin/cards/file/profile.h"

namespace mgpu::plugin {

class NodeProfiles {
 public:
  // `label` is the key of the label that names a profile, `file` has the name of the last one.
  NodeProfiles(std::vector<Profile> profiles, std::string label, std::string file);

  bool none() const { return profiles_.empty(); }
  // Chooses the profile of `file`. False: there is none. Before choose().
  bool restore();
  // True: the profile or the problem has changed. One thread at a time.
  bool choose(const kube::StringMap& labels);

  // Any thread.
  std::optional<Profile> current() const;
  std::string problem() const;  // one sentence, or empty

 private:
  void keep(const std::optional<Profile>& profile, bool is_first_try);

  const std::vector<Profile> profiles_;
  const std::string label_;
  const std::string file_;
  bool kept_ = true;  // false: the file could not be written; the next choose() tries again
  mutable Mutex mutex_;
  bool chosen_ MGPU_GUARDED_BY(mutex_) = false;
  std::optional<Profile> current_ MGPU_GUARDED_BY(mutex_);
  std::string problem_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin
