// Which nodes have changed since a page was sent them. The state of a node is sent as a whole, from
// the ledger at that time; so a page that reads slowly skips states, and nothing waits for it.
//
// Each change gets the next version. A page names the version that it has, and gets what is newer,
// in the order of versions. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "extender/ledger/ledger_reader.h"

namespace mgpu::extender {

class ClusterFeed {
 public:
  // `ledger` outlives it.
  explicit ClusterFeed(LedgerReader& ledger) : ledger_(ledger) {}

  // Compares with the ledger, from which expected placements that ended before `now` are removed.
  void update(Instant now);
  // Returns the version of the last change; 0 before the first one.
  std::uint64_t version() const { return version_; }

  struct Changes {
    // {"version": V, "restart"?: true, "nodes": [node*], "removed": [name*]}, see node_text.h. With
    // "restart" the page forgets all nodes first.
    std::string json;
    std::uint64_t version = 0;  // the page has it then
  };
  // The changes after `version`, of at most kWebPartBytes and a node. Begins with the first one for
  // version 0, and for a version that is not one of this feed.
  Changes after(std::uint64_t version) const;

 private:
  struct Known {
    NodeVersion of_ledger;
    std::uint64_t version = 0;
    std::uint64_t seen = 0;  // the update in which the ledger had the node
    bool removed = false;
  };
  using Nodes = std::unordered_map<std::string, Known>;

  void mark(Nodes::value_type& node);
  void compare();

  LedgerReader& ledger_;
  Nodes nodes_;
  std::map<std::uint64_t, Nodes::value_type*> by_version_;  // of nodes_
  std::uint64_t version_ = 0;
  std::uint64_t updates_ = 0;
  std::size_t removed_ = 0;
  std::uint64_t begin_ = 0;  // pages with an older version begin again; 0: there are none
};

}  // namespace mgpu::extender
