#include "plugin/agent/known_cards.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/contract/limits.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "plugin/agent/call.h"

namespace mgpu::plugin {

namespace {

constexpr Duration kTimeout{5'000};
// Those of all indices, each with the most that a card of the annotation takes.
constexpr std::size_t kFileBytesMax =
    (kCardIndexMax + 1) / kCardsPerNodeMax * kCardsAnnotationBytesMax;

// Each line is a list as in the annotation, which has at most kCardsPerNodeMax cards.
Result<KnownCards> known_from(std::string_view lines) {
  KnownCards known;
  do {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const auto cards = parse_node_cards(line);
    if (!cards) return cards.error();
    for (const CardFacts& card : *cards) known[card.index] = card;
  } while (!lines.empty());
  return known;
}

}  // namespace

Result<KnownCards> load_card_indices(const std::string& path) {
  const auto text = read_file(path, kFileBytesMax, "the file of card indices");
  if (!text) return text.error();
  auto known = known_from(*text);
  if (!known) return error(path + ": " + known.error().message);
  return known;
}

Result<void> save_card_indices(const std::string& path, const KnownCards& known) {
  std::vector<CardFacts> cards;
  for (const auto& [index, card] : known) {
    MGPU_DEBUG_CHECK(card.index == index, "a card is saved with the index that it has");
    cards.push_back(card);
  }
  std::string text;
  std::span<const CardFacts> left = cards;
  do {
    const auto line = left.first(std::min(left.size(), kCardsPerNodeMax));
    left = left.subspan(line.size());
    text += (text.empty() ? "" : "\n") + format_node_cards(line);
  } while (!left.empty());
  return write_file(path, text, Durability::kMachine);
}

Result<KnownCards> fetch_card_indices(kube::Transport& transport, const NodeName& node,
                                      const Contract& contract) {
  const kube::Response response = send_and_wait(transport, kube::get_node(node), kTimeout);
  if (response.status == 404) return KnownCards{};
  if (!response.ok()) {
    return error("get node " + node.str() + ": " + kube::answer_text(response));
  }
  const auto read = kube::read_node(response.body);
  if (!read) return error("node " + node.str() + ": " + read.error().message);
  const auto at = read->metadata.annotations.find(contract.node_cards);
  if (at == read->metadata.annotations.end()) return KnownCards{};
  auto known = known_from(at->second);
  if (!known) {
    return error("annotation " + contract.node_cards + " of node " + node.str() + ": " +
                 known.error().message);
  }
  return known;
}

std::optional<KnownCards> find_card_indices(const std::string& path, kube::Transport& transport,
                                            const NodeName& node, const Contract& contract) {
  // The annotation may be old or lost after a restore of etcd, and the file after one of the disk.
  auto known = load_card_indices(path);
  if (known) return *std::move(known);
  log_info("reading the indices of the cards from the Node object",
           {{"reason", known.error().message}});
  known = fetch_card_indices(transport, node, contract);
  if (known) return *std::move(known);
  log_warn("the indices of the cards are unknown, retrying", {{"problem", known.error().message}});
  return std::nullopt;
}

}  // namespace mgpu::plugin
