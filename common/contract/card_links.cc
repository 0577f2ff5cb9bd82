#include "common/contract/card_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "common/base/text.h"

namespace mgpu {
namespace {

constexpr std::string_view kSymbols = "-np123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
static_assert(kSymbols.size() == static_cast<std::size_t>(nvlinks(kNvlinksMax)) + 1);

}  // namespace

std::string to_string(Link link) {
  if (const int count = nvlink_count(link); count > 0) return fmt::format("NV{}", count);
  return link == Link::kSwitch ? "PIX" : link == Link::kSameNuma ? "NODE" : "SYS";
}

Result<Link> link_of_name(std::string_view name) {
  if (name == "SYS") return Link::kFar;
  if (name == "NODE" || name == "PHB") return Link::kSameNuma;
  if (name == "PIX" || name == "PXB") return Link::kSwitch;
  for (int count = 1; count <= kNvlinksMax; ++count)
    if (name == to_string(nvlinks(count))) return nvlinks(count);
  return error(fmt::format("a link must be SYS, NODE, PHB, PIX, PXB or NV1 to NV{}, found {}",
                           kNvlinksMax, in_quotes(name)));
}

CardLinks::CardLinks(std::size_t cards) : cards_(cards), links_(pairs(cards)) {
  MGPU_CHECK(cards <= kCardsPerNodeMax, "links of more cards than a node has");
}

Result<CardLinks> CardLinks::parse(std::string_view text, std::size_t cards) {
  CardLinks links(cards);
  if (text.size() != links.links_.size()) {
    return error(fmt::format("links must have {} for {}, one for each two of them, found {}",
                             counted(std::ssize(links.links_), "character"),
                             counted(static_cast<std::int64_t>(cards), "card"), text.size()));
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t symbol = kSymbols.find(text[i]);
    if (symbol == kSymbols.npos) {
      return error(
          fmt::format("links must consist of \"-\", \"n\", \"p\", 1 to 9 and A to Z, found "
                      "{} at {}",
                      in_quotes(text.substr(i, 1)), i));
    }
    links.links_[i] = static_cast<Link>(symbol);
  }
  return links;
}

std::string CardLinks::text() const {
  std::string text;
  for (const Link link : links_) text += kSymbols[static_cast<std::size_t>(link)];
  MGPU_DEBUG_CHECK(parse(text, cards_).value() == *this, "the text of links is read back the same");
  return text;
}

bool CardLinks::uniform() const {
  return std::ranges::all_of(links_, [&](Link link) { return link == links_[0]; });
}

}  // namespace mgpu
