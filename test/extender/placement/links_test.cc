// The choice of cards by their links, compared with brute force on the links of real machines
// (test/golden/topology/README.md) for all sets of free cards.
#include "extender/placement/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "common/base/files.h"
#include "extender/placement/limits.h"
#include "extender/placement/place.h"
#include "extender/placement/policies/policies.h"
#include "extender/placement/score.h"
#include "test/support/cluster_text.h"
#include "test/support/topology_text.h"

namespace mgpu::extender {
namespace {

using test::request_of;

const std::vector<std::string> kMachines = {"dgx-1",      "dgx-a100",      "h100-sxm",
                                            "pcie-pairs", "bridged-pairs", "broken"};

CardLinks links_of_machine(const std::string& name) {
  const auto text =
      read_file(MGPU_SOURCE_DIR "/test/golden/topology/" + name + ".txt", 65'536, "topology");
  EXPECT_TRUE(text) << name;
  return test::links_of(*text);
}

Node machine(const CardLinks& links) {
  Node node;
  node.name = NodeName("n");
  for (std::size_t i = 0; i < links.cards(); ++i) {
    Card& card = node.cards.emplace_back();
    card.index = CardIndex(static_cast<std::int32_t>(i));
    card.capacity = {kWholeCard, MiB(1000)};
  }
  node.links = std::make_shared<const CardLinks>(links);
  return node;
}

GpuRequest whole_cards(std::size_t count, LinkPreference preference = LinkPreference::kPreferred) {
  GpuRequest request = request_of("wholex" + std::to_string(count));
  request.links = preference;
  return request;
}

CardSet set_of(const std::vector<CardIndex>& cards) {
  CardSet set = 0;
  for (const CardIndex card : cards) set |= CardSet{1} << card.value();
  return set;
}

// The chosen cards, or none.
CardSet placed(const Node& node, const GpuRequest& request, const Policy& policy = kBinpack) {
  SearchBudget budget{kPlacementStepsMax};
  const auto result = place(node, request, policy, budget);
  const auto* found = std::get_if<Placed>(&result);
  return found == nullptr ? 0 : set_of(found->placement.cards_of.front());
}

// Written apart from the product: the rules of links.h word by word.
struct Measure {
  Link worst = nvlinks(kNvlinksMax);
  int nvlinks_in_sum = 0;
  int pairs_at_a_switch = 0;
  int pairs_on_a_numa_node = 0;
  auto operator<=>(const Measure&) const = default;
};
Measure measure(const CardLinks& links, CardSet set) {
  Measure measured;
  for (std::size_t a = 0; a < links.cards(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if ((set >> a & 1) == 0 || (set >> b & 1) == 0) continue;
      const Link link = links.between(a, b);
      measured.worst = std::min(measured.worst, link);
      measured.nvlinks_in_sum += nvlink_count(link);
      measured.pairs_at_a_switch += link == Link::kSwitch ? 1 : 0;
      measured.pairs_on_a_numa_node += link == Link::kSameNuma ? 1 : 0;
    }
  }
  return measured;
}

// Whether the first difference of the two is a card of `a`.
bool begins_lower(CardSet a, CardSet b) {
  const CardSet different = a ^ b;
  return different != 0 && (a & different & ~(different - 1)) != 0;
}

// The best of the sets of `count` of the `free` cards that `allowed` accepts, by trying all.
CardSet best_of_all(const CardLinks& links, CardSet free, int count,
                    const std::function<bool(CardSet)>& allowed) {
  std::optional<std::pair<Measure, CardSet>> best;
  for (CardSet set = free; set != 0; set = (set - 1) & free) {
    if (std::popcount(set) != count || !allowed(set)) continue;
    const Measure measured = measure(links, set);
    if (!best || measured > best->first ||
        (measured == best->first && begins_lower(set, best->second)))
      best = {measured, set};
  }
  return best ? best->second : 0;
}

bool linked(const CardLinks& links, CardSet set) {
  return std::popcount(set) < 2 || measure(links, set).worst >= Link::kNvlink;
}

void take_all_but(Node& node, CardSet free) {
  for (std::size_t i = 0; i < node.cards.size(); ++i) {
    node.cards[i].used = (free >> i & 1) != 0 ? Share{} : node.cards[i].capacity;
  }
}

TEST(Links, OfSixMachinesGiveTheCardsOfBruteForceForAllFreeSets) {
  for (const std::string& name : kMachines) {
    SCOPED_TRACE(name);
    const CardLinks links = links_of_machine(name);
    Node node = machine(links);
    for (CardSet free = 1; free < CardSet{1} << links.cards(); ++free) {
      take_all_but(node, free);
      for (int count = 1; count <= std::popcount(free); ++count) {
        const auto wanted = static_cast<std::size_t>(count);
        const auto all = [](CardSet) { return true; };
        ASSERT_EQ(placed(node, whole_cards(wanted)), best_of_all(links, free, count, all))
            << "free " << free << ", " << count << " cards";
        const auto only_linked = [&](CardSet set) { return linked(links, set); };
        const CardSet best = best_of_all(links, free, count, only_linked);
        const GpuRequest required = whole_cards(wanted, LinkPreference::kRequired);
        ASSERT_EQ(placed(node, required), best) << "free " << free << ", " << count << " linked";
        SearchBudget budget{kPlacementStepsMax};
        ASSERT_EQ(why_not(node, required, budget).has_value(), best == 0);
      }
    }
  }
}

TEST(Links, AreAsPeopleExpectThemOnADgx1) {
  Node node = machine(links_of_machine("dgx-1"));
  EXPECT_EQ(placed(node, whole_cards(2)), 0b1001);   // NV2
  EXPECT_EQ(placed(node, whole_cards(4)), 0b1111);   // the first of the two halves
  take_all_but(node, 0b01110111);                    // no two with NV2 in the first half but 1, 2
  EXPECT_EQ(placed(node, whole_cards(2)), 0b10001);  // 0 and 4
  take_all_but(node, 0b10100001);                    // 0 has no NVLink with 5 and 7
  EXPECT_EQ(placed(node, whole_cards(2)), 0b10100000);
}

// Cards in use are filled first, as binpack wants; only then links decide.
TEST(Links, DecideOnlyBetweenCardsThatPackEquallyWell) {
  Node node = machine(links_of_machine("dgx-1"));
  node.cards[1].used = node.cards[6].used = {Percent(20), MiB(200)};
  const GpuRequest parts = request_of("30/300x2");
  EXPECT_EQ(placed(node, parts), 0b1000010);  // no NVLink between the two
  node.cards[6].used = {};
  EXPECT_EQ(placed(node, parts), 0b110);  // 1 in use, and of the empty ones that with NV2
  EXPECT_EQ(placed(node, parts, kSpread), 0b1001);
}

TEST(Links, ThatAPodIgnoresChangeNothing) {
  const Node node = machine(links_of_machine("dgx-1"));
  EXPECT_EQ(placed(node, whole_cards(2, LinkPreference::kIgnored)), 0b11);
  Node unknown = node;
  unknown.links = nullptr;
  EXPECT_EQ(placed(unknown, whole_cards(2)), 0b11);
  EXPECT_EQ(placed(machine(links_of_machine("h100-sxm")), whole_cards(3)), 0b111);
}

std::string reason(const Node& node, const GpuRequest& request) {
  SearchBudget budget{kPlacementStepsMax};
  const auto why = why_not(node, request, budget);
  return std::string(why ? sentence(*why, request) : "fits");
}

TEST(Links, ThatAPodRequiresAreAReason) {
  Node node = machine(links_of_machine("dgx-1"));
  const auto required = [](std::size_t count) {
    return whole_cards(count, LinkPreference::kRequired);
  };
  EXPECT_EQ(reason(node, required(4)), "fits");
  EXPECT_EQ(reason(node, required(5)), "node(s) had too few cards linked by NVLink, even empty");
  EXPECT_FALSE(eviction_can_help(Reason::kNoLinkedCards));
  take_all_but(node, 0b10100001);
  EXPECT_EQ(reason(node, required(2)), "fits");
  EXPECT_EQ(reason(node, required(3)), "node(s) had too few free cards linked by NVLink");
  EXPECT_TRUE(eviction_can_help(Reason::kLinkedCards));
  take_all_but(node, 0b1);
  EXPECT_EQ(reason(node, required(2)), "node(s) had too few cards with enough free mgpu-core");
  EXPECT_EQ(reason(node, required(1)), "fits");
  node.links = nullptr;
  EXPECT_EQ(reason(node, required(2)), "node(s) had too few cards linked by NVLink, even empty");
  EXPECT_EQ(reason(machine(links_of_machine("pcie-pairs")), required(2)),
            "node(s) had too few cards linked by NVLink, even empty");
  EXPECT_EQ(reason(machine(links_of_machine("h100-sxm")), required(8)), "fits");
}

// The required links hold for each container, and packing decides among linked sets.
TEST(Links, OfSeveralContainersHoldForEach) {
  const Node node = machine(links_of_machine("bridged-pairs"));
  GpuRequest request = request_of("wholex2 wholex2 wholex2");
  SearchBudget budget{kPlacementStepsMax};
  auto result = place(node, request, kBinpack, budget);
  ASSERT_TRUE(std::holds_alternative<Placed>(result));
  EXPECT_EQ(test::text_of(std::get<Placed>(result).placement), "0,1 | 2,3 | 4,5");
  request.links = LinkPreference::kRequired;
  Node taken = node;
  take_all_but(taken, 0b11110011);
  budget = {kPlacementStepsMax};
  result = place(taken, request, kBinpack, budget);
  ASSERT_TRUE(std::holds_alternative<Placed>(result));
  EXPECT_EQ(test::text_of(std::get<Placed>(result).placement), "0,1 | 4,5 | 6,7");
  take_all_but(taken, 0b10111011);  // two pairs, and one card of each of the others
  EXPECT_EQ(reason(taken, request),
            "node(s) had room for each container alone, but not for all "
            "together");
}

// What a pod of several containers gets is linked, wherever such a placement exists.
TEST(Links, OfSeveralContainersAreFoundExactlyWhereTheyExist) {
  const CardLinks links = links_of_machine("dgx-1");
  Node node = machine(links);
  GpuRequest request = request_of("wholex2 wholex3");
  request.links = LinkPreference::kRequired;
  std::size_t found = 0;
  for (CardSet free = 1; free < 256; ++free) {
    take_all_but(node, free);
    bool exists = false;
    for (CardSet two = free; two != 0 && !exists; two = (two - 1) & free) {
      if (std::popcount(two) != 2 || !linked(links, two)) continue;
      exists =
          best_of_all(links, free & ~two, 3, [&](CardSet set) { return linked(links, set); }) != 0;
    }
    SearchBudget budget{kPlacementStepsMax};
    EXPECT_EQ(!why_not(node, request, budget), exists) << free;
    const auto result = place(node, request, kBinpack, budget);
    const auto* at = std::get_if<Placed>(&result);
    ASSERT_EQ(at != nullptr, exists) << free;
    if (at == nullptr) continue;
    ++found;
    for (const auto& cards : at->placement.cards_of) EXPECT_TRUE(linked(links, set_of(cards)));
  }
  EXPECT_GT(found, 10);
  EXPECT_LT(found, 200);
}

CardLinks random_links(std::mt19937& random, std::size_t cards) {
  constexpr Link kSome[] = {Link::kFar, Link::kSameNuma, Link::kSwitch, nvlinks(1), nvlinks(2)};
  CardLinks links(cards);
  for (std::size_t a = 0; a < cards; ++a)
    for (std::size_t b = 0; b < a; ++b) links.set(a, b, kSome[random() % 5]);
  return links;
}

// With scores: the scores of a set, from the highest on, come before its links.
TEST(Links, AreExactWithAnyScoresAndAnyLinks) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    const std::size_t cards = 2 + random() % 7;
    const CardLinks links = random_links(random, cards);
    std::vector<LinkCandidate> candidates;
    for (std::size_t card = 0; card < cards; ++card)
      candidates.push_back({static_cast<Score>(random() % 3), card});
    const auto scores = [&](CardSet set) {
      std::vector<Score> all;
      for (std::size_t card = 0; card < cards; ++card)
        if ((set >> card & 1) != 0) all.push_back(candidates[card].score);
      std::ranges::sort(all, std::greater<>());
      return all;
    };
    const int count = static_cast<int>(1 + random() % cards);
    const CardSet all = (CardSet{1} << cards) - 1;
    for (const bool required : {false, true}) {
      const auto accepted = [&](CardSet set) { return !required || linked(links, set); };
      std::vector<Score> highest;
      for (CardSet set = all; set != 0; --set)
        if (std::popcount(set) == count && accepted(set)) highest = std::max(highest, scores(set));
      const CardSet best = best_of_all(
          links, all, count, [&](CardSet set) { return accepted(set) && scores(set) == highest; });
      std::vector<LinkCandidate> sorted = candidates;
      std::ranges::stable_sort(sorted, std::greater<>(), &LinkCandidate::score);
      const auto wanted = static_cast<std::size_t>(count);
      const ConnectedSet found =
          required ? best_linked(links, sorted, wanted) : best_connected(links, sorted, wanted);
      ASSERT_TRUE(found.exact);
      ASSERT_EQ(std::popcount(found.cards), std::popcount(best)) << "seed " << seed;
      if (best == 0) continue;
      ASSERT_EQ(scores(found.cards), highest) << "seed " << seed;
      ASSERT_EQ(measure(links, found.cards), measure(links, best)) << "seed " << seed;
    }
  }
}

TEST(Links, OfSixteenCardsAreExactWithinTheBound) {
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::mt19937 random(seed);
    CardLinks links = random_links(random, 16);
    if (seed == 0) {
      // All sets but one are equal, so that no branch can be left.
      links = CardLinks(16);
      links.set(14, 15, Link::kSameNuma);
    }
    std::vector<LinkCandidate> candidates(16);
    for (std::size_t card = 0; card < 16; ++card) candidates[card].card = card;
    const ConnectedSet found = best_connected(links, candidates, 8);
    EXPECT_TRUE(found.exact);
    EXPECT_LE(found.steps, kLinkStepsMax);
    const CardSet best = best_of_all(links, 0xffff, 8, [](CardSet) { return true; });
    EXPECT_EQ(measure(links, found.cards), measure(links, best));
  }
}

// Groups of eight with NVLink in another order than the positions, on the largest node.
TEST(Links, OfMoreCardsAreChosenGreedily) {
  CardLinks links(64);
  for (std::size_t a = 0; a < 64; ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (a % 8 == b % 8) links.set(a, b, nvlinks(2));
  std::vector<LinkCandidate> candidates(64);
  for (std::size_t card = 0; card < 64; ++card) candidates[card].card = card;
  const ConnectedSet found = best_connected(links, candidates, 8);
  EXPECT_FALSE(found.exact);
  EXPECT_EQ(std::popcount(found.cards), 8);
  EXPECT_EQ(measure(links, found.cards).worst, nvlinks(2));
  // A few more than the group: no set is better than eight of one and the rest of another.
  const ConnectedSet more = best_connected(links, candidates, 12);
  EXPECT_EQ(std::popcount(more.cards), 12);
  EXPECT_EQ(measure(links, more.cards).nvlinks_in_sum, 2 * (28 + 6));
  EXPECT_LT(more.steps, 2 * kLinkStepsMax);
}

// Scores do not search by links, and bind does: the score is that of the cards of bind.
TEST(Links, DoNotChangeTheScoreOfANode) {
  for (const std::string& name : kMachines) {
    const CardLinks links = links_of_machine(name);
    Node node = machine(links);
    for (CardSet free = 1; free < CardSet{1} << links.cards(); ++free) {
      take_all_but(node, free);
      Node unknown = node;
      unknown.links = nullptr;
      for (const Policy* policy : {&kBinpack, &kSpread, &kEquilibrium}) {
        SearchBudget budget{kPlacementStepsMax};
        const GpuRequest request = whole_cards(2);
        const PolicyChoice choice{policy, policy};
        ASSERT_EQ(score_of(node, request, choice, budget),
                  score_of(unknown, request, choice, budget));
      }
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
