#include "bench/sim/picture.h"

#include <algorithm>
#include <map>

#include "extender/ledger/claim.h"
#include "extender/placement/holds.h"

namespace mgpu::sim {
namespace {

std::string request_text(const ContainerRequest& container) {
  if (container.whole)
    return std::to_string(container.cards) + (container.cards == 1 ? " card" : " cards");
  const std::string one = std::to_string(container.per_card.core.value()) + " % " +
                          std::to_string(container.per_card.memory.value()) + " MiB";
  return container.cards == 1 ? one : std::to_string(container.cards) + " x " + one;
}

std::string request_text(const kube::Pod& pod, const Contract& contract) {
  const auto request = read_request(pod, contract, MiB{0});
  if (!request) return "?";
  std::string text;
  for (const auto& container : request->containers)
    text += (text.empty() ? "" : " + ") + request_text(container);
  return text.empty() ? "no card" : text;
}

kube::StringMap domain_annotations(const kube::Pod& pod, const Contract& contract) {
  kube::StringMap own;
  for (const auto& [key, value] : pod.metadata.annotations)
    if (key.starts_with(contract.domain + "/")) own[key] = value;
  return own;
}

extender::Node placement_node(const kube::Node& node, const Contract& contract) {
  extender::Node placed;
  placed.name = NodeName(node.metadata.name);
  for (const CardFacts& facts : extender::node_facts_of(node, contract).cards) {
    extender::Card card;
    card.index = facts.index;
    card.model = facts.model;
    card.capacity = facts.capacity();
    card.healthy = facts.healthy();
    placed.cards.push_back(std::move(card));
  }
  return placed;
}

NodePicture picture_of(const extender::Node& node) {
  NodePicture picture{node.name.str(), {}};
  for (const extender::Card& card : node.cards)
    picture.cards.push_back({card.index, card.model, card.capacity, card.healthy, {}});
  return picture;
}

void add_pieces(NodePicture& picture, const extender::Node& node, const extender::Claim& claim,
                std::size_t pod) {
  if (!claim.placement) return;
  for (const auto& hold : extender::holds(node, claim.request, *claim.placement))
    for (CardPicture& card : picture.cards)
      if (card.index == hold.card) card.pieces.push_back({pod, hold.share});
}

// --- text ----------------------------------------------------------------------------------------

constexpr int kBarCells = 20;
constexpr const char* kReset = "\x1b[0m";

std::string tinted(const std::string& text, std::size_t pod, bool color) {
  constexpr int kTints[] = {39, 208, 76, 170, 220, 45, 203, 111, 149, 215};
  if (!color) return text;
  return "\x1b[30;48;5;" + std::to_string(kTints[pod % std::size(kTints)]) + "m" + text + kReset;
}

std::string dim(const std::string& text, bool color) {
  return color ? "\x1b[2m" + text + kReset : text;
}

std::string bold(const std::string& text, bool color) {
  return color ? "\x1b[1m" + text + kReset : text;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// A bar of kBarCells cells. Pieces are rounded up to whole cells while there is room.
std::string bar(const CardPicture& card, std::int64_t (*amount)(const Share&), bool color) {
  const std::int64_t whole = std::max<std::int64_t>(amount(card.capacity), 1);
  std::string text;
  int drawn = 0;
  std::int64_t sum = 0;
  for (const Piece& piece : card.pieces) {
    sum += amount(piece.share);
    const int end = std::min(kBarCells, static_cast<int>((sum * kBarCells + whole - 1) / whole));
    if (end > drawn)
      text += tinted(std::string(static_cast<std::size_t>(end - drawn), letter_of(piece.pod)),
                     piece.pod, color);
    drawn = std::max(drawn, end);
  }
  return "[" + text + dim(std::string(static_cast<std::size_t>(kBarCells - drawn), '.'), color) +
         "]";
}

std::int64_t core_of(const Share& share) {
  return share.core.value();
}

std::int64_t memory_of(const Share& share) {
  return share.memory.value();
}

std::string percent(const CardPicture& card, std::int64_t (*amount)(const Share&)) {
  std::int64_t sum = 0;
  for (const Piece& piece : card.pieces) sum += amount(piece.share);
  const std::int64_t whole = std::max<std::int64_t>(amount(card.capacity), 1);
  const std::string text = std::to_string(sum * 100 / whole) + " %";
  return std::string(text.size() < 6 ? 6 - text.size() : 0, ' ') + text;
}

std::string draw_card(const CardPicture& card, bool color) {
  const std::string title = "  " + std::to_string(card.index.value()) + "  " +
                            padded((card.model.empty() ? "card" : card.model) + " " +
                                       std::to_string(card.capacity.memory.value()) + " MiB",
                                   24);
  if (!card.healthy) return title + "unhealthy, not offered\n";
  return title + "core " + bar(card, core_of, color) + percent(card, core_of) + "   memory " +
         bar(card, memory_of, color) + percent(card, memory_of) + "\n";
}

// The annotations without their domain, such as: assumed: "true", gpu-model: "T4"
std::string annotation_line(const PodPicture& pod) {
  std::string text;
  for (const auto& [key, value] : pod.annotations)
    text += (text.empty() ? "" : ", ") + key.substr(key.find('/') + 1) + ": \"" + value + "\"";
  return text;
}

std::string draw_pod(const PodPicture& pod, std::size_t number, bool color) {
  const std::string key = tinted(" " + std::string(1, letter_of(number)) + " ", number, color);
  std::string text = key;
  text += " " + padded(to_string(pod.ref), 28) + " " + padded(pod.request, 32) + " ";
  if (!pod.finished.empty()) return text + dim(pod.finished + ", holds nothing", color) + "\n";
  if (!pod.node.empty())
    text += "-> " + padded(pod.node, 10) + " " + dim(annotation_line(pod), color) + "\n";
  else if (pod.reason.empty())
    text += dim("in the queue", color) + "\n";
  else
    text += bold("pending", color) + "\n      " + pod.reason + "\n";
  for (const std::string& detail : pod.details) text += "        " + dim(detail, color) + "\n";
  return text;
}

}  // namespace

Picture read_picture(const std::vector<kube::Node>& nodes, const std::vector<kube::Pod>& pods,
                     const Contract& contract) {
  Picture picture;
  std::vector<extender::Node> placed;
  std::map<std::string, std::size_t> by_name;
  for (const kube::Node& node : nodes) {
    by_name[node.metadata.name] = placed.size();
    placed.push_back(placement_node(node, contract));
    picture.nodes.push_back(picture_of(placed.back()));
  }
  for (const kube::Pod& pod : pods) {
    const std::size_t number = picture.pods.size();
    picture.pods.push_back({pod.ref(),
                            request_text(pod, contract),
                            pod.node_name,
                            pod.finished() ? pod.phase : "",
                            domain_annotations(pod, contract),
                            "",
                            {}});
    const auto at = by_name.find(pod.node_name);
    if (at == by_name.end() || pod.finished()) continue;
    if (const auto claim = extender::claim_of(pod, contract))
      add_pieces(picture.nodes[at->second], placed[at->second], *claim, number);
  }
  return picture;
}

char letter_of(std::size_t pod) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  return kLetters[pod % kLetters.size()];
}

std::string draw(const Picture& picture, bool color) {
  std::string text;
  for (const NodePicture& node : picture.nodes) {
    text += bold(node.name, color) + "\n";
    for (const CardPicture& card : node.cards) text += draw_card(card, color);
    if (node.cards.empty()) text += dim("  no cards", color) + "\n";
  }
  text += "\n";
  for (std::size_t i = 0; i < picture.pods.size(); ++i) text += draw_pod(picture.pods[i], i, color);
  return text;
}

}  // namespace mgpu::sim
