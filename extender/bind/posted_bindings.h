// The bindings that attempts send for assumed claims, by their claims, and by their pods. Has an
// entry for each claim that an attempt holds, or whose outcome AssumedPodReconciler has to find.
// For the binder only, on the client's executor.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>

#include "common/base/backoff.h"
#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/bind/binding_state.h"
#include "extender/bind/limits.h"
#include "extender/ledger/node_record.h"

namespace mgpu::extender {

// The POST of an assumed claim.
struct PostedBinding {
  Annotations annotations{};
  std::string resource_version{};  // of the last POST
  bool in_progress = true;         // the attempt has not ended
  bool accepted = false;           // the API server has the binding
  // Once the attempt has ended: when the pod is read or touched next, and the wait after that.
  Instant settle_at{};
  Backoff backoff{kTouchBackoffFirst, kTouchBackoffMax};
};

class PostedBindings {
 public:
  // The claim has none yet. References stay valid until their binding is erased.
  PostedBinding& add(ClaimId claim, const PodUid& uid, PostedBinding binding);
  bool contains(ClaimId claim) const { return by_claim_.contains(claim); }
  // The claim has one.
  PostedBinding& at(ClaimId claim);
  // Does nothing if the claim has none.
  void erase(ClaimId claim);
  void erase_if(const std::function<bool(ClaimId, const PostedBinding&)>& is_over);
  std::size_t size() const { return by_claim_.size(); }

  // A binding of the pod has been sent, and its outcome is not known. Such a pod is not bound again
  // before: each attempt would hold another share for it.
  bool has_unsettled(const PodUid& uid) const;

 private:
  struct Posted {
    PodUid uid;
    PostedBinding binding;
  };

  std::unordered_map<ClaimId, Posted> by_claim_;
  std::unordered_multimap<PodUid, ClaimId> by_uid_;
};

}  // namespace mgpu::extender
