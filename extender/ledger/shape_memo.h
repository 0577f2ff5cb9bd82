// What decisions found for each node, kept for the next pod that asks for the same. Pods come in
// few shapes, and between two of them few nodes change: what stands for a node is used again for as
// long as its record has not changed since.
//
//   (none) --decided--> kept for this version of the node --the record changes--> decided anew
//                            |
//                            +--another market, or the shape is the one used longest ago--> (none)
//
// Part of the ledger; used under its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "extender/ledger/ledger.h"
#include "extender/ledger/node_record.h"

namespace mgpu::ledger {

// Each takes some 40 bytes a node: 13 MB in all at 5,000 nodes. Clusters have a few dozen shapes at
// a time.
inline constexpr std::size_t kShapesKept = 64;

// All that a decision goes by beside the node: of pods with equal shapes one answer is every
// answer. Names of containers are left empty.
struct Shape {
  std::vector<ContainerRequest> containers;
  CardSelector selector;
  // What only scores depend on.
  placement::HostAmount host;
  placement::PolicyChoice policy;
  bool operator==(const Shape&) const = default;

  static Shape of(const GpuRequest& request);
  static Shape of(const placement::Ask& ask, const placement::PolicyChoice& policy);
};

// Whether a request fits each node.
class FitTable {
 public:
  std::optional<placement::Reason> why_not(const NodeRecord& record, const GpuRequest& request,
                                           placement::SearchBudget& budget);

 private:
  struct Cell {
    std::uint64_t version = 0;  // of the record; 0: nothing is kept
    std::optional<placement::Reason> reason;
  };
  std::vector<Cell> cells_;  // by NodeRecord::slot
};

// How good each node is.
class ScoreTable {
 public:
  Scored score(const NodeRecord& record, const placement::Ask& ask,
               const placement::PolicyChoice& policy, placement::SearchBudget& budget);
  // Forgets what was found by another market.
  void use(const placement::Market* market);

 private:
  struct Cell {
    std::uint64_t version = 0;
    Scored scored;
  };
  std::vector<Cell> cells_;
  const placement::Market* market_ = nullptr;
  std::uint64_t market_version_ = 0;
};

// The tables of the kShapesKept shapes that were asked for last.
template <class Table>
class ShapeMemo {
 public:
  Table& of(const Shape& shape);

 private:
  struct Entry {
    Shape shape;
    Table table;
  };
  std::vector<std::unique_ptr<Entry>> entries_;  // the one used last comes first
};

}  // namespace mgpu::ledger
