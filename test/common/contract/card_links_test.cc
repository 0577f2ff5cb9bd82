#include "common/contract/card_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/contract/contract.h"

namespace mgpu {
namespace {

using testing::HasSubstr;

std::vector<CardFacts> cards(int count) {
  std::vector<CardFacts> facts;
  for (int i = 0; i < count; ++i) {
    facts.push_back({.index = CardIndex(i),
                     .uuid = CardUuid("GPU-" + std::to_string(i)),
                     .model = "V100",
                     .memory = MiB(16'384)});
  }
  return facts;
}

std::string problem_of(std::string_view text, std::size_t cards) {
  const auto links = CardLinks::parse(text, cards);
  return links ? "" : links.error().message;
}

TEST(CardLinks, HaveOneCharacterForEachPairOfCards) {
  CardLinks links(4);
  links.set(0, 1, nvlinks(12));
  links.set(2, 0, nvlinks(1));
  links.set(1, 2, Link::kSwitch);
  links.set(3, 2, Link::kSameNuma);
  EXPECT_EQ(links.text(), "C1p--n");
  EXPECT_EQ(CardLinks::parse("C1p--n", 4).value(), links);
  EXPECT_EQ(links.between(1, 0), links.between(0, 1));
  EXPECT_EQ(to_string(links.between(1, 0)), "NV12");
  EXPECT_EQ(to_string(links.between(1, 2)), "PIX");
  EXPECT_EQ(to_string(links.between(2, 3)), "NODE");
  EXPECT_EQ(to_string(links.between(0, 3)), "SYS");
}

TEST(CardLinks, AreOrderedFromTheWorstToTheBest) {
  EXPECT_LT(Link::kFar, Link::kSameNuma);
  EXPECT_LT(Link::kSameNuma, Link::kSwitch);
  EXPECT_LT(Link::kSwitch, nvlinks(1));
  for (int count = 1; count < kNvlinksMax; ++count) EXPECT_LT(nvlinks(count), nvlinks(count + 1));
  EXPECT_EQ(nvlink_count(nvlinks(1000)), kNvlinksMax);
  EXPECT_EQ(nvlink_count(Link::kSwitch), 0);
}

TEST(CardLinks, AreUniformWhereNoChoiceIsBetter) {
  EXPECT_TRUE(CardLinks().uniform());
  EXPECT_TRUE(CardLinks::parse("III", 3)->uniform());
  EXPECT_FALSE(CardLinks::parse("IIH", 3)->uniform());
}

TEST(CardLinks, OfOtherLengthsOrCharactersAreRefused) {
  EXPECT_EQ(problem_of("", 1), "");
  EXPECT_EQ(problem_of("11", 3),
            "links must have 3 characters for 3 cards, one for each two of them, found 2");
  EXPECT_EQ(problem_of("1", 1),
            "links must have 0 characters for 1 card, one for each two of them, found 1");
  EXPECT_EQ(problem_of("1a1", 3),
            "links must consist of \"-\", \"n\", \"p\", 1 to 9 and A to Z, found \"a\" at 1");
  EXPECT_THAT(problem_of(std::string("1\0001", 3), 3), HasSubstr(" at 1"));
}

TEST(CardLinks, AreReadAsTheyAreWrittenInTheAnnotation) {
  std::mt19937 engine(7);
  for (int round = 0; round < 200; ++round) {
    const int count = static_cast<int>(engine() % 65);
    std::vector<CardFacts> facts = cards(count);
    CardLinks links(facts.size());
    for (std::size_t a = 0; a < facts.size(); ++a) {
      if (engine() % 2 == 0) facts[a].numa = static_cast<std::int32_t>(engine() % 1024);
      for (std::size_t b = 0; b < a; ++b) links.set(a, b, static_cast<Link>(engine() % 38));
    }
    const std::string text = format_node_cards(facts, {}, links);
    ASSERT_LE(text.size(), kCardsAnnotationBytesMax);
    const auto read = parse_node_annotation(text);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->cards, facts);
    if (count > 1) EXPECT_EQ(read->links, links);
  }
}

TEST(CardLinks, OfTheAnnotationMustBeThoseOfItsCards) {
  const auto problem = [](const std::string& member) {
    std::string text = format_node_cards(cards(3));
    text.insert(1, member + ",");
    const auto read = parse_node_annotation(text);
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(problem(R"("links":"12-")"), "");
  EXPECT_EQ(problem(R"("links":null)"), "");
  EXPECT_EQ(problem(R"("links":7)"), "links must be a string, found 7");
  EXPECT_THAT(problem(R"("links":"1")"), HasSubstr("must have 3 characters for 3 cards"));
  const auto numa = parse_node_annotation(
      R"({"version":1,"cards":[{"index":0,"uuid":"a","model":"b","memoryMiB":1,)"
      R"("health":"Healthy","numa":-1}]})");
  ASSERT_FALSE(numa);
  EXPECT_EQ(numa.error().message, "cards[0]: numa must be a whole number from 0 to 1023, found -1");
}

// The order of the cards in the annotation may be another one than that of their indices.
TEST(CardLinks, FollowTheIndicesOfTheCards) {
  const auto read = parse_node_annotation(
      R"({"version":1,"links":"12-","cards":[)"
      R"({"index":5,"uuid":"c","model":"b","memoryMiB":1,"health":"Healthy"},)"
      R"({"index":0,"uuid":"a","model":"b","memoryMiB":1,"health":"Healthy"},)"
      R"({"index":2,"uuid":"b","model":"b","memoryMiB":1,"health":"Healthy"}]})");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->links.between(0, 1), nvlinks(1));  // of the cards 0 and 2
  EXPECT_EQ(read->links.between(0, 2), nvlinks(2));  // of the cards 0 and 5
}

}  // namespace
}  // namespace mgpu
