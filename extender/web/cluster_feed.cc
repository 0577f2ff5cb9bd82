#include "extender/web/cluster_feed.h"

#include <fmt/format.h>

#include <optional>

#include "common/base/text.h"
#include "extender/web/limits.h"
#include "extender/web/node_text.h"

namespace mgpu::extender {

void ClusterFeed::mark(Nodes::value_type& node) {
  by_version_.erase(node.second.version);
  node.second.version = ++version_;
  by_version_.emplace(version_, &node);
}

void ClusterFeed::update(Instant now) {
  ledger_.read(now, [](const View&) {});
  compare();
  if (removed_ <= kWebRemovedNodesMax) return;
  by_version_.clear();
  nodes_.clear();
  removed_ = 0;
  begin_ = version_ + 1;
  compare();
}

void ClusterFeed::compare() {
  ++updates_;
  ledger_.visit_versions([&](const NodeName& name, const NodeVersion& of_ledger) {
    auto& node = *nodes_.try_emplace(name.str()).first;
    Known& known = node.second;
    known.seen = updates_;
    if (known.version != 0 && !known.removed && known.of_ledger == of_ledger) return;
    if (known.removed) --removed_;
    known.removed = false;
    known.of_ledger = of_ledger;
    mark(node);
  });
  for (auto& node : nodes_) {
    if (node.second.seen == updates_ || node.second.removed) continue;
    node.second.removed = true;
    ++removed_;
    mark(node);
  }
}

ClusterFeed::Changes ClusterFeed::after(std::uint64_t version) const {
  const bool restart = version > version_ || (version != 0 && version < begin_);
  if (restart) version = 0;
  std::string nodes;
  std::string removed;
  auto at = by_version_.upper_bound(version);
  const bool first = version == 0;
  for (; at != by_version_.end() && nodes.size() + removed.size() < kWebPartBytes; ++at) {
    version = at->first;
    const auto& [name, known] = *at->second;
    // It may have gone since the last update.
    const auto view = known.removed ? std::nullopt : ledger_.node(NodeName(name));
    if (view) {
      if (!nodes.empty()) nodes += ',';
      append_node(nodes, NodeName(name), *view);
    } else if (!first) {
      removed += fmt::format("{}\"{}\"", removed.empty() ? "" : ",", json_escaped(name));
    }
  }
  return {.json = fmt::format(R"({{"version":{},{}"nodes":[{}],"removed":[{}]}})", version,
                              restart ? R"("restart":true,)" : "", nodes, removed),
          .version = version};
}

}  // namespace mgpu::extender
