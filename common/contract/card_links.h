// How the cards of a node are connected with each other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/result.h"
#include "common/contract/limits.h"

namespace mgpu {

// The link between two cards, from the worst to the best. A number of NVLinks is kNvlink plus the
// number less one, so that two links are compared as numbers.
enum class Link : std::uint8_t {
  kFar,       // nothing of the following, or not known
  kSameNuma,  // the cards are on one NUMA node
  kSwitch,    // all PCIe bridges between the cards are below one host bridge
  kNvlink,    // one NVLink, directly or through NVSwitch
};
inline constexpr int kNvlinksMax = 35;

// `count` NVLinks, of which at most kNvlinksMax count. REQUIRES: count > 0.
constexpr Link nvlinks(int count) {
  MGPU_DEBUG_CHECK(count > 0, "a link of no NVLinks");
  const int counted = count < kNvlinksMax ? count : kNvlinksMax;
  return static_cast<Link>(static_cast<int>(Link::kNvlink) + counted - 1);
}
// 0 for other links.
constexpr int nvlink_count(Link link) {
  return link < Link::kNvlink ? 0 : static_cast<int>(link) - static_cast<int>(Link::kNvlink) + 1;
}
// Returns the name of `nvidia-smi topo -m`: "NV12", "PIX", "NODE", "SYS".
std::string to_string(Link link);
// Reads such a name, also "PXB" and "PHB". Errors: another name.
Result<Link> link_of_name(std::string_view name);

// The links between the cards of a node, by their positions.
class CardLinks {
 public:
  CardLinks() = default;
  // All are kFar. REQUIRES: cards <= kCardsPerNodeMax.
  explicit CardLinks(std::size_t cards);

  // "links" of node-cards (contract.h) for so many cards. Errors: one sentence that says what was
  // expected.
  static Result<CardLinks> parse(std::string_view text, std::size_t cards);
  std::string text() const;

  std::size_t cards() const { return cards_; }
  bool empty() const { return cards_ == 0; }
  // REQUIRES: a != b, both less than cards().
  Link between(std::size_t a, std::size_t b) const {
    MGPU_DEBUG_CHECK(a != b && a < cards_ && b < cards_, "a link is between two of the cards");
    return links_[position(a, b)];
  }
  void set(std::size_t a, std::size_t b, Link link) {
    MGPU_DEBUG_CHECK(a != b && a < cards_ && b < cards_, "a link is between two of the cards");
    links_[position(a, b)] = link;
  }
  // Whether all pairs of cards have the same link, so that no choice of cards is better.
  bool uniform() const;
  bool operator==(const CardLinks&) const = default;

 private:
  static constexpr std::size_t pairs(std::size_t cards) {
    return cards == 0 ? 0 : cards * (cards - 1) / 2;
  }
  // Finds the pair in the lower half of the matrix, whose rows follow each other.
  static constexpr std::size_t position(std::size_t a, std::size_t b) {
    return a > b ? pairs(a) + b : pairs(b) + a;
  }

  std::size_t cards_ = 0;
  std::vector<Link> links_;
};

}  // namespace mgpu
