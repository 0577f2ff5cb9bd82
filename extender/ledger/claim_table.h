// All claims, by id, by the pod's uid and by the pod's name. Part of the ledger; used under its
// lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_set>
#include <vector>

#include "extender/ledger/node_record.h"
#include "extender/ledger/text_hash.h"

namespace mgpu::extender {

class ClaimTable {
 public:
  // The entry stays at its address until erase().
  Entry& add(Claim claim, Phase phase, Instant touched);
  void erase(Entry& entry);

  // Null if there is none.
  Entry* find(ClaimId id);
  // All claims of one pod, in no order.
  std::vector<Entry*> of(const PodUid& uid) const;
  // Returns the bound one of several claims of this name, else the latest attempt. Null if there
  // is none.
  const Entry* of(const PodRef& pod) const;
  // The claims in Phase::kAssumed, by id.
  const std::map<ClaimId, Entry*>& assumed() const { return assumed_; }
  // All, by id. Only erase() removes any.
  std::map<ClaimId, Entry>& entries() { return entries_; }
  std::size_t size() const { return entries_.size(); }

 private:
  // Hash and equality of an entry by one of its fields, which is stored once.
  struct ByUid {
    using is_transparent = void;
    static const PodUid& key(const Entry* entry) { return entry->view.claim.uid; }
    static const PodUid& key(const PodUid& uid) { return uid; }
    std::size_t operator()(const auto& uid) const { return std::hash<PodUid>()(key(uid)); }
    bool operator()(const auto& a, const auto& b) const { return key(a) == key(b); }
  };
  struct ByPod {
    using is_transparent = void;
    static const PodRef& key(const Entry* entry) { return entry->view.claim.pod; }
    static const PodRef& key(const PodRef& pod) { return pod; }
    static std::size_t hash(const PodRef& pod) {
      const TextHash text;
      return text(pod.name) * 31 + text(pod.name_space);
    }
    std::size_t operator()(const auto& pod) const { return hash(key(pod)); }
    bool operator()(const auto& a, const auto& b) const { return key(a) == key(b); }
  };

  void check_sizes() const;

  std::map<ClaimId, Entry> entries_;
  std::unordered_multiset<Entry*, ByUid, ByUid> by_uid_;
  std::unordered_multiset<Entry*, ByPod, ByPod> by_pod_;
  std::map<ClaimId, Entry*> assumed_;
  ClaimId last_id_ = 0;
};

}  // namespace mgpu::extender
