#include "bench/sim/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace mgpu::sim {
namespace {

constexpr int kWidth = 860;
constexpr int kMargin = 20;
constexpr int kRowHeight = 24;
constexpr int kLineHeight = 17;
constexpr int kBarWidth = 230;
constexpr int kBarHeight = 16;
// A narrower piece of a bar has no room for its letter.
constexpr int kLetterWidth = 12;
constexpr std::size_t kLineLength = 118;

// The left edges of the columns, and the number of characters that fit.
constexpr int kModelX = 56;
constexpr int kMemoryX = 212;  // right edge
constexpr int kCoreBarX = 236;
constexpr int kMemoryBarX = 550;
constexpr std::size_t kModelLength = 12;
constexpr int kPodX = 56;
constexpr std::size_t kPodLength = 18;
constexpr int kRequestX = 196;
constexpr std::size_t kRequestLength = 34;
constexpr int kNodeX = 446;
constexpr std::size_t kNodeLength = 11;
constexpr int kCardsX = 536;
constexpr std::size_t kCardsLength = 46;

// These have enough contrast to black letters, and colour-blind readers can tell neighbours apart.
constexpr std::array kColours = {"#56b4e9", "#e69f00", "#8fd694", "#f0a3c5", "#f0e442",
                                 "#9ec5ff", "#ffb08a", "#b8a5e3", "#c8d96f", "#d9c2a7"};

constexpr std::string_view kStyle =
    "text{font:13px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
    ".b{font-weight:600}.r{text-anchor:end}.c{text-anchor:middle}.dim{fill:#656d76}"
    ".small{font-size:12px}.wait{fill:#b35900;font-weight:600}";

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return safe;
}

// Cuts between characters of UTF-8.
std::string shortened(const std::string& text, std::size_t length) {
  if (text.size() <= length) return text;
  std::size_t end = length - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

// The lines of a long sentence, broken at spaces.
std::vector<std::string> wrapped(std::string text) {
  std::vector<std::string> lines;
  while (text.size() > kLineLength) {
    const std::size_t space = text.rfind(' ', kLineLength);
    if (space == std::string::npos || space == 0) break;
    lines.push_back(text.substr(0, space));
    text.erase(0, space + 1);
  }
  lines.push_back(shortened(text, kLineLength));
  return lines;
}

// Thousands are separated, as in "81,559".
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string text_at(int x, int y, std::string_view style, const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\">{}</text>\n", x, y, style,
                     escaped(text));
}

std::string box(int x, int y, int width, int height, int radius, std::string_view fill) {
  return fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" fill=\"{}\"/>\n",
                     x, y, width, height, radius, fill);
}

std::string_view colour_of(std::size_t pod) {
  return kColours[pod % kColours.size()];
}

using Amount = std::int64_t (*)(const Share&);

// One bar with a piece for each pod, and the used percentage to the right. `y` is the baseline of
// the row's text.
std::string bar(int x, int y, const CardPicture& card, Amount amount) {
  const std::int64_t whole = std::max<std::int64_t>(amount(card.capacity), 1);
  std::string drawn = box(x, y - 13, kBarWidth, kBarHeight, 3, "#dfe3e8");
  std::int64_t used = 0;
  int left = 0;
  for (const Piece& piece : card.pieces) {
    used += amount(piece.share);
    const int right = static_cast<int>(std::min<std::int64_t>(used * kBarWidth / whole, kBarWidth));
    drawn += box(x + left, y - 13, right - left, kBarHeight, 3, colour_of(piece.pod));
    if (right - left >= kLetterWidth)
      drawn += text_at(x + (left + right) / 2, y, "b c small", {letter_of(piece.pod)});
    left = right;
  }
  return drawn + text_at(x + kBarWidth + 48, y, "r", fmt::format("{} %", used * 100 / whole));
}

std::string draw_card(const CardPicture& card, int y) {
  const std::string model = card.model.empty() ? "card" : card.model;
  std::string drawn = text_at(36, y, "dim", std::to_string(card.index.value())) +
                      text_at(kModelX, y, "", shortened(model, kModelLength)) +
                      text_at(kMemoryX, y, "r dim", grouped(card.capacity.memory.value()) + " MiB");
  if (!card.healthy) return drawn + text_at(kCoreBarX, y, "dim", "unhealthy, not offered");
  return drawn + bar(kCoreBarX, y, card, [](const Share& share) { return share.core.value(); }) +
         bar(kMemoryBarX, y, card, [](const Share& share) { return share.memory.value(); });
}

// Moves `y` to the end of what was drawn, as the functions below do.
std::string draw_node(const NodePicture& node, int& y) {
  const int rows = 1 + static_cast<int>(std::max<std::size_t>(node.cards.size(), 1));
  std::string drawn = box(kMargin, y, kWidth - 2 * kMargin, rows * kRowHeight + 8, 6, "#f6f8fa");
  y += 18;
  drawn += text_at(32, y, "b", shortened(node.name, 24)) +
           text_at(kCoreBarX, y, "small dim", "core") +
           text_at(kMemoryBarX, y, "small dim", "memory");
  for (const CardPicture& card : node.cards) drawn += draw_card(card, y += kRowHeight);
  if (node.cards.empty()) drawn += text_at(36, y += kRowHeight, "dim", "no cards");
  y += 24;
  return drawn;
}

// The card indices of each container, such as: decode "1", infer "1".
std::string cards_of(const PodPicture& pod) {
  constexpr std::string_view kIndex = "/gpu-index-container-";
  std::string text;
  for (const auto& [key, value] : pod.annotations) {
    const std::size_t at = key.find(kIndex);
    if (at == std::string::npos) continue;
    text +=
        fmt::format("{}{} \"{}\"", text.empty() ? "" : ", ", key.substr(at + kIndex.size()), value);
  }
  return text;
}

std::string draw_pod(const PodPicture& pod, std::size_t number, int& y) {
  y += kRowHeight;
  std::string drawn = box(kMargin, y - 13, 26, kBarHeight, 3, colour_of(number)) +
                      text_at(33, y, "b c small", {letter_of(number)}) +
                      text_at(kPodX, y, "b", shortened(pod.ref.name, kPodLength)) +
                      text_at(kRequestX, y, "", shortened(pod.request, kRequestLength));
  if (!pod.finished.empty()) return drawn + text_at(kNodeX, y, "dim", pod.finished);
  if (!pod.node.empty())
    return drawn + text_at(kNodeX, y, "", shortened(pod.node, kNodeLength)) +
           text_at(kCardsX, y, "", shortened(cards_of(pod), kCardsLength));
  drawn += text_at(kNodeX, y, "wait", "pending");
  for (const std::string& line : wrapped(pod.reason))
    drawn += text_at(kPodX, y += kLineHeight, "small", line);
  for (const std::string& detail : pod.details)
    drawn += text_at(kPodX + 16, y += kLineHeight, "small dim", shortened(detail, kLineLength));
  return drawn;
}

std::string draw_pods(const std::vector<PodPicture>& pods, int& y) {
  y += 16;
  std::string drawn = text_at(kPodX, y, "small dim", "pod") +
                      text_at(kRequestX, y, "small dim", "request of each container") +
                      text_at(kNodeX, y, "small dim", "node") +
                      text_at(kCardsX, y, "small dim", "annotation gpu-index-container-…");
  for (std::size_t i = 0; i < pods.size(); ++i) drawn += draw_pod(pods[i], i, y);
  return drawn;
}

}  // namespace

std::string draw_svg(const Picture& picture) {
  int y = kMargin;
  std::string drawn;
  for (const NodePicture& node : picture.nodes) drawn += draw_node(node, y);
  drawn += draw_pods(picture.pods, y);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
             "height=\"{1}\">\n<style>{2}</style>\n",
             kWidth, y + kMargin, kStyle) +
         box(0, 0, kWidth, y + kMargin, 8, "#ffffff") + drawn + "</svg>\n";
}

}  // namespace mgpu::sim
