#include "extender/ledger/shape_memo.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/limits.h"
#include "extender/placement/holds.h"
#include "extender/placement/market.h"

namespace mgpu::ledger {
namespace {

using placement::Reason;

// Where all nodes together have less left than one may spend, an answer may be for want of steps.
bool worth_keeping(const placement::SearchBudget& before) {
  return before.steps >= limits::kPlacementStepsMax;
}

template <class Cell>
Cell& cell_of(std::vector<Cell>& cells, const NodeRecord& record) {
  if (record.slot >= cells.size()) cells.resize(record.slot + 1);
  return cells[record.slot];
}

Scored decide(const placement::Node& node, const placement::Ask& ask,
              const placement::PolicyChoice& policy, placement::SearchBudget& budget) {
  const auto answer = placement::place(node, ask, *policy.card, budget);
  const auto* placed = std::get_if<placement::Placed>(&answer);
  if (placed == nullptr) return {};
  const auto holds = placement::holds(node, ask.request, placed->placement);
  return {true, placed->beside_expected, policy.node->score_node(ask, node, holds)};
}

}  // namespace

Shape Shape::of(const GpuRequest& request) {
  Shape shape{
      .containers = request.containers, .selector = request.selector, .host = {}, .policy = {}};
  for (ContainerRequest& container : shape.containers) container.name.clear();
  return shape;
}

Shape Shape::of(const placement::Ask& ask, const placement::PolicyChoice& policy) {
  Shape shape = of(ask.request);
  shape.host = ask.host;
  shape.policy = policy;
  return shape;
}

std::optional<Reason> FitTable::why_not(const NodeRecord& record, const GpuRequest& request,
                                        placement::SearchBudget& budget) {
  Cell& cell = cell_of(cells_, record);
  if (cell.version == record.version) return cell.reason;
  if (!record.present) return Reason::kNodeUnknown;
  const bool keep = worth_keeping(budget);
  const auto reason = placement::why_not(record.node, request, budget);
  if (keep) cell = {record.version, reason};
  return reason;
}

Scored ScoreTable::score(const NodeRecord& record, const placement::Ask& ask,
                         const placement::PolicyChoice& policy, placement::SearchBudget& budget) {
  Cell& cell = cell_of(cells_, record);
  if (cell.version == record.version) return cell.scored;
  if (!record.present) return {};
  const bool keep = worth_keeping(budget);
  const Scored scored = decide(record.node, ask, policy, budget);
  if (keep) cell = {record.version, scored};
  return scored;
}

void ScoreTable::use(const placement::Market* market) {
  const std::uint64_t version = market != nullptr ? market->version : 0;
  if (market_ != market || market_version_ != version) cells_.clear();
  market_ = market;
  market_version_ = version;
}

template <class Table>
Table& ShapeMemo<Table>::of(const Shape& shape) {
  auto at =
      std::ranges::find_if(entries_, [&](const auto& entry) { return entry->shape == shape; });
  if (at == entries_.end()) {
    if (entries_.size() >= kShapesKept) entries_.pop_back();
    at = entries_.insert(entries_.end(), std::make_unique<Entry>(Entry{shape, {}}));
  }
  std::rotate(entries_.begin(), at, at + 1);
  return entries_.front()->table;
}

template class ShapeMemo<FitTable>;
template class ShapeMemo<ScoreTable>;

}  // namespace mgpu::ledger
