// The cards that preempt and filter have answered for pods, by pod, and those that are counted, by
// node; and who has its turn after them. nominations.h decides which are counted, and until when.
// Part of the ledger; used under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/executor.h"
#include "common/base/ids.h"
#include "extender/ledger/decided_pod.h"
#include "extender/ledger/text_hash.h"

namespace mgpu::extender {

// A pod that waits for cards that are counted for another one, and what is kept for it afterwards.
struct Turn {
  DecidedPod pod;
  NominatedPlacement cards;
};

// What one pod was answered.
struct Offer {
  std::int32_t priority = 0;
  std::string name_space;
  std::string group;
  Instant until{};
  Instant group_until{};  // as long as its group may count it
  // As long as binds of its group, or other pods for which its own waits, may prolong it.
  Instant latest = Instant::max();
  std::vector<NominatedPlacement> placements;
  std::string counted_on;                  // a node of `placements`, or empty
  Instant counted_until = Instant::max();  // unless the watch shows the nomination before
  bool awaited = false;                    // a pod of no or another group waits for its end
  std::optional<Turn> next{};              // of these, the one that has its turn afterwards
  bool is_turn = false;
  std::uint64_t answer = 0;  // its number

  // REQUIRES: there is one on the node.
  const NominatedPlacement& on(std::string_view node) const;
};

// In sanitized builds, sums over more offers than that are not checked after each change, which
// would take most of the time of a test.
inline constexpr std::size_t kOffersCheckedMax = 64;

class OfferTable {
 public:
  using Offers = std::unordered_map<PodUid, Offer>;
  using At = Offers::iterator;

  // To change times. add() and erase() add and remove offers.
  Offers& all() { return offers_; }
  const Offers& all() const { return offers_; }
  // Null if the pod has none.
  const Offer* find(const PodUid& uid) const;
  // REQUIRES: the pod has none. At kNominationsMax pods, and at kNominationsOfNamespaceMax of its
  // namespace, one of them is removed: that is not counted, or else of the lowest priority, or else
  // ends first.
  At add(const PodUid& uid, Offer offer);
  // Stops counting it, too.
  At erase(At at);

  // Counts the offer on the node, if it has a placement there. REQUIRES: it is not counted.
  void count_on(At at, const NodeName& node);
  // Without an effect if it is not counted. The pod that has its turn afterwards is in
  // take_turns().
  void stop_counting(At at);
  bool any_counted() const { return !counted_.empty(); }
  std::size_t pods_counted() const { return pods_counted_; }
  // Valid until anything is counted or not counted any more.
  const std::vector<PodUid>& pods_counted_on(std::string_view node) const;
  // Null if nothing is counted for the pod.
  const NominatedPlacement* counted(const PodUid& uid) const;
  bool is_counted_on(const PodUid& uid, std::string_view node) const;

  void set_next(Offer& offer, std::optional<Turn> next);
  // The pod waits for no cards any more, and has no turn after any.
  void end_waiting(const PodUid& uid);
  // What the pod waited for is not counted any more.
  void add_turn(std::optional<Turn> turn);
  bool has_turns() const { return !turns_.empty(); }
  // Removes and returns the turns that are to begin.
  std::vector<Turn> take_turns();

  // How often something that a pod waited for was not counted any more.
  std::uint64_t releases() const { return releases_; }
  void add_release() { ++releases_; }
  // Undoes what has been counted since releases() returned this.
  void set_releases(std::uint64_t releases) { releases_ = releases; }

 private:
  void make_room(const std::string& name_space);
  // Whether the counts equal those of offers_. For checks.
  bool is_consistent() const;
  void check() const;

  Offers offers_;
  std::map<std::string, std::size_t> of_namespace_;  // how many offers
  // By node. filter searches for each node that it is asked about.
  std::unordered_map<std::string, std::vector<PodUid>, TextHash, TextEqual> counted_;
  std::size_t pods_counted_ = 0;
  std::size_t waiting_ = 0;  // offers with a pod that has its turn afterwards
  std::vector<Turn> turns_;  // that are about to begin
  std::uint64_t releases_ = 0;
};

}  // namespace mgpu::extender
