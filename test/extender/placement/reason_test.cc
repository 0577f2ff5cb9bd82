#include "extender/placement/reason.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "common/base/files.h"

namespace mgpu::extender {
namespace {

constexpr Reason kReasons[] = {Reason::kNodeUnknown,
                               Reason::kNoCards,
                               Reason::kShareTooSmall,
                               Reason::kPartsOfOneCard,
                               Reason::kTooFewCards,
                               Reason::kNoCardMatches,
                               Reason::kCardsUnhealthy,
                               Reason::kCardsCordoned,
                               Reason::kCardsTooSmall,
                               Reason::kNoLinkedCards,
                               Reason::kContainersTooLarge,
                               Reason::kCardsUncertain,
                               Reason::kCore,
                               Reason::kMemory,
                               Reason::kCoreAndMemory,
                               Reason::kLinkedCards,
                               Reason::kTogether,
                               Reason::kSearchBound,
                               Reason::kNominated};

TEST(Reason, EachHasASentenceOfItsOwn) {
  std::set<std::string_view> sentences;
  for (const Reason reason : kReasons) sentences.insert(sentence(reason));
  EXPECT_EQ(sentences.size(), std::size(kReasons));
}

TEST(Reason, ThatOfSeveralCardsDoesNotSayThatThereIsNone) {
  const auto text = [](std::int32_t cards) {
    return sentence(Reason::kCore, {.containers = {{.name = "a"}, {.name = "b", .cards = cards}}});
  };
  EXPECT_EQ(text(1), "node(s) had no single card with enough free mgpu-core");
  EXPECT_EQ(text(2), "node(s) had too few cards with enough free mgpu-core");
}

TEST(Reason, ThePageSaysWhatToDoAboutEach) {
  const std::string page = *read_file(MGPU_SOURCE_DIR "/deploy/TROUBLESHOOTING.md", 1 << 20);
  for (const Reason reason : kReasons)
    EXPECT_NE(page.find(fmt::format("`{}`", sentence(reason))), page.npos) << sentence(reason);
}

// kube-scheduler counts equal texts, and a number would make them differ.
TEST(Reason, SentencesHoldNoNumbersAndNoFullStop) {
  for (std::size_t i = 0; i < 2 * std::size(kReasons); ++i) {
    const std::string_view text = sentence(kReasons[i / 2], i % 2 == 1);
    EXPECT_FALSE(std::ranges::any_of(text, [](unsigned char c) { return std::isdigit(c); }))
        << text;
    EXPECT_FALSE(text.ends_with('.')) << text;
    EXPECT_TRUE(text.starts_with("node(s) ")) << text;
  }
}

TEST(Reason, EvictionHelpsAgainstPodsButNotAgainstCards) {
  const std::set<Reason> helped{Reason::kCardsUncertain, Reason::kCore,        Reason::kMemory,
                                Reason::kCoreAndMemory,  Reason::kLinkedCards, Reason::kTogether,
                                Reason::kSearchBound,    Reason::kNominated};
  for (const Reason reason : kReasons) {
    EXPECT_EQ(eviction_can_help(reason), helped.contains(reason)) << sentence(reason);
  }
}

}  // namespace
}  // namespace mgpu::extender
