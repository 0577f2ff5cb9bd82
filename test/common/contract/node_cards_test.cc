#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/contract/contract.h"
#include "common/contract/limits.h"

namespace mgpu {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CardFacts card(int index, const std::string& uuid, std::int64_t memory = 81'920) {
  return {.index = CardIndex(index),
          .uuid = CardUuid(uuid),
          .model = "NVIDIA A100-SXM4-80GB",
          .memory = MiB(memory)};
}

// A list with one card, whose `member` has this value.
std::string one_card(const std::string& name, const std::string& value) {
  const std::pair<std::string, std::string> members[] = {
      {"index", "0"},        {"uuid", "\"GPU-a\""},     {"model", "\"A100\""},
      {"memoryMiB", "1024"}, {"health", "\"Healthy\""}, {"since", "\"2026-01-01T00:00:00Z\""}};
  std::string object;
  for (const auto& [key, usual] : members) {
    const std::string& chosen = key == name ? value : usual;
    if (chosen.empty()) continue;
    object += (object.empty() ? "" : ",") + ("\"" + key + "\":" + chosen);
  }
  return R"({"version":1,"cards":[{)" + object + "}]}";
}

TEST(NodeCards, AreWrittenInOneForm) {
  std::vector<CardFacts> facts{card(0, "GPU-a"), card(3, "GPU-b", 16'000)};
  facts[1].health = "Xid79";
  facts[1].since = "2026-11-21T08:00:00Z";
  EXPECT_EQ(format_node_cards(facts),
            R"({"version":1,"cards":[)"
            R"({"index":0,"uuid":"GPU-a","model":"NVIDIA A100-SXM4-80GB","memoryMiB":81920,)"
            R"("health":"Healthy"},)"
            R"({"index":3,"uuid":"GPU-b","model":"NVIDIA A100-SXM4-80GB","memoryMiB":16000,)"
            R"("health":"Xid79","since":"2026-11-21T08:00:00Z"}]})");
  EXPECT_EQ(format_node_cards({}), R"({"version":1,"cards":[]})");
}

TEST(NodeCards, AreReadAsTheyWereWritten) {
  std::mt19937 engine(6);
  for (int round = 0; round < 200; ++round) {
    std::vector<CardFacts> facts;
    for (int index = 0; facts.size() < engine() % 64; index += 1 + static_cast<int>(engine() % 9)) {
      facts.push_back(card(index, "GPU-" + std::to_string(index), 1 + engine() % 200'000));
      if (engine() % 4 == 0) facts.back().health = "a \"sick\" \\ card \xE2\x82\xAC";
    }
    const auto parsed = parse_node_cards(format_node_cards(facts));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    ASSERT_EQ(*parsed, facts);
  }
}

NodeProfile some_profile() {
  return {.name = "inference",
          .problem = "two profiles match",
          .isolation = "intercept",
          .compute = "mps",
          .policy = "spread/binpack",
          .minimum = {Percent(10), MiB(2048)},
          .parts_of_one_card = true};
}

TEST(NodeCards, HaveTheProfileOfTheNodeAndMoreComputeWhereItSaysSo) {
  std::vector<CardFacts> facts{card(0, "GPU-a")};
  facts[0].core = Percent(250);
  const std::string text = format_node_cards(facts, some_profile());
  EXPECT_EQ(text,
            R"({"version":1,"profile":"inference","profileProblem":"two profiles match",)"
            R"("isolation":"intercept","compute":"mps","policy":"spread/binpack","minimumCore":10,)"
            R"("minimumMemoryMiB":2048,"partsOfOneCard":true,"cards":[{"index":0,"uuid":"GPU-a",)"
            R"("model":"NVIDIA A100-SXM4-80GB","memoryMiB":81920,"health":"Healthy",)"
            R"("corePercent":250}]})");
  const auto read = parse_node_annotation(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->profile, some_profile());
  EXPECT_EQ(read->cards, facts);
}

TEST(NodeCards, WithoutAProfileHaveTheComputeOfOneCardEach) {
  const auto read = parse_node_annotation(one_card("", ""));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->profile, NodeProfile());
  EXPECT_EQ(read->cards.at(0).core, kWholeCard);
}

TEST(NodeCards, AreNotReadWithMoreComputeOrAnotherTypeThanTheContractHas) {
  const auto with = [](const std::string& member) {
    const auto read = parse_node_annotation(R"({"version":1,)" + member + R"(,"cards":[]})");
    return read ? std::string("read") : read.error().message;
  };
  EXPECT_EQ(with(R"("profile":7)"), "profile must be a string of 0 to 96 bytes, found 7");
  EXPECT_EQ(with(R"("minimumCore":101)"),
            "minimumCore must be a whole number from 0 to 100, found 101");
  EXPECT_EQ(with(R"("partsOfOneCard":1)"), "partsOfOneCard must be true or false, found 1");
  EXPECT_EQ(with(R"("policy":"spread")"), "read");
  for (const char* core : {"99", "1001", "1.5", "\"200\"", "-200"}) {
    const std::string text = R"({"version":1,"cards":[{"index":0,"uuid":"a","model":"b",)"
                             R"("memoryMiB":1,"health":"Healthy","corePercent":)" +
                             std::string(core) + "}]}";
    const auto read = parse_node_cards(text);
    ASSERT_FALSE(read) << core;
    EXPECT_THAT(read.error().message,
                HasSubstr("cards[0]: corePercent must be a whole number from 100 to 1000"));
  }
}

TEST(NodeCards, AreAscendingByIndex) {
  const std::vector<CardFacts> facts{card(2, "GPU-c"), card(0, "GPU-a"), card(1, "GPU-b")};
  EXPECT_THAT(*parse_node_cards(format_node_cards(facts)),
              ElementsAre(card(0, "GPU-a"), card(1, "GPU-b"), card(2, "GPU-c")));
}

TEST(NodeCards, OfAFullNodeFitIntoTheAnnotation) {
  std::vector<CardFacts> facts;
  for (int i = 0; i < 64; ++i) {
    facts.push_back(card(i, std::to_string(i) + std::string(94, 'u')));
    facts.back().model = facts.back().health = facts.back().since = std::string(96, 'm');
  }
  const std::string text = format_node_cards(facts);
  EXPECT_LE(text.size(), kCardsAnnotationBytesMax);
  EXPECT_EQ(parse_node_cards(text)->size(), 64U);
}

TEST(NodeCards, IgnoreUnknownMembers) {
  const auto parsed = parse_node_cards(
      R"({"writer":{"deep":[[[[[{"x":[]}]]]]]},"version":1,"cards":[
          {"index":1,"uuid":"GPU-a","model":"A100","memoryMiB":1024,"health":"Healthy",
           "mig":{"enabled":[1,{"2":3}]},"since":null}]})");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->at(0).uuid.str(), "GPU-a");
  EXPECT_EQ(parsed->at(0).since, "");
}

TEST(NodeCards, OnlyHealthyIsHealthy) {
  EXPECT_TRUE(parse_node_cards(one_card("", ""))->at(0).healthy());
  EXPECT_FALSE(parse_node_cards(one_card("health", "\"healthy\""))->at(0).healthy());
}

TEST(NodeCards, NameTheInvalidMember) {
  struct Case {
    std::string member;
    std::string value;  // empty: absent
    std::string why;
  };
  const Case cases[] = {
      {"index", "", "index must be a whole number from 0 to 1023, found nothing"},
      {"index", "-1", "found -1"},
      {"index", "1024", "found 1024"},
      {"index", "1.0", "found 1.0"},
      {"index", "\"1\"", "found \"1\""},
      {"index", "18446744073709551615", "found 18446744073709551615"},
      {"index", "99999999999999999999999", "found 9.99"},
      {"index", "true", "found true"},
      {"index", "[0]", "found array"},
      {"uuid", "", "uuid must be a string of 1 to 96 bytes, found nothing"},
      {"uuid", "\"\"", "found \"\""},
      {"uuid", "7", "found 7"},
      {"uuid", "{}", "found object"},
      {"uuid", '"' + std::string(97, 'u') + '"', "found \"uuuu"},
      {"model", "", "model must be a string"},
      {"model", "null", "found nothing"},
      {"memoryMiB", "", "memoryMiB must be a whole number from 1 to 16777216, found nothing"},
      {"memoryMiB", "0", "found 0"},
      {"memoryMiB", "-5", "found -5"},
      {"memoryMiB", "16777217", "found 16777217"},
      {"memoryMiB", "9223372036854775808", "found 9223372036854775808"},
      {"health", "", "health must be a string"},
      {"health", "true", "found true"},
      {"since", "12", "since must be a string of 0 to 96 bytes, found 12"},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_node_cards(one_card(c.member, c.value));
    ASSERT_TRUE(parsed.has_error()) << c.member << " " << c.value;
    EXPECT_THAT(parsed.error().message,
                AllOf(HasSubstr("cards[0]: " + c.member + " must be"), HasSubstr(c.why)));
  }
}

TEST(NodeCards, RefuseAnInvalidDocument) {
  struct Case {
    std::string text;
    std::string why;
  };
  const Case cases[] = {
      {"", "must be a JSON object, found \"\""},
      {"no", "must be a JSON object, found \"no\""},
      {"null", "must be a JSON object"},
      {"[]", "must be a JSON object"},
      {"{\"version\":1", "must be a JSON object"},
      {"{} {}", "must be a JSON object"},
      {"{\"a\":\"\xFF\"}", "must be a JSON object"},
      {"{}", "must have version 1, found nothing"},
      {R"({"version":2,"cards":[]})", "must have version 1, found 2"},
      {R"({"version":"1","cards":[]})", "must have version 1, found \"1\""},
      {R"({"version":[1],"cards":[]})", "must have version 1, found array"},
      {R"({"version":1})", "cards must be an array, found nothing"},
      {R"({"version":1,"cards":{}})", "cards must be an array, found object"},
      {R"({"version":1,"cards":[7]})", "cards[0] must be an object, found 7"},
      {R"({"version":1,"cards":[[]]})", "cards[0] must be an object, found array"},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_node_cards(c.text);
    ASSERT_TRUE(parsed.has_error()) << c.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(c.why));
  }
}

TEST(NodeCards, RefuseDuplicates) {
  const std::vector<CardFacts> same_index{card(4, "GPU-a"), card(4, "GPU-b")};
  EXPECT_THAT(parse_node_cards(format_node_cards(same_index)).error().message,
              HasSubstr("cards[1]: index 4 is used twice"));
  const std::vector<CardFacts> same_uuid{card(4, "GPU-a"), card(5, "GPU-a")};
  EXPECT_THAT(parse_node_cards(format_node_cards(same_uuid)).error().message,
              HasSubstr("cards[1]: uuid \"GPU-a\" is used twice"));
}

TEST(NodeCards, AreLimitedInNumberAndBytes) {
  std::vector<CardFacts> facts;
  for (int i = 0; i < 65; ++i) facts.push_back(card(i, std::to_string(i)));
  EXPECT_THAT(parse_node_cards(format_node_cards(facts)).error().message,
              HasSubstr("at most 64 cards, found 65"));
  EXPECT_THAT(parse_node_cards(std::string(65'537, ' ')).error().message,
              HasSubstr("at most 65536 bytes, found 65537"));
}

TEST(NodeCards, MayBeNestedToAnyDepth) {
  for (const std::string open : {"[", "{\"a\":", "{\"cards\":[", "[[{\"x\":["}) {
    std::string text;
    while (text.size() + open.size() < kCardsAnnotationBytesMax) text += open;
    EXPECT_TRUE(parse_node_cards(text).has_error());
  }
  const std::string closed = std::string(30'000, '[') + std::string(30'000, ']');
  EXPECT_TRUE(parse_node_cards(closed).has_error());
  EXPECT_TRUE(parse_node_cards(R"({"version":1,"cards":[],"x":)" + closed + "}").has_value());
}

// Mutations of a valid list are read or refused.
TEST(NodeCards, SurviveAnyDamage) {
  const std::string good = format_node_cards(std::vector{card(0, "GPU-a"), card(1, "GPU-b")});
  std::mt19937 engine(8);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (std::size_t hits = 1 + engine() % 3; hits > 0; --hits) {
      text[engine() % text.size()] = static_cast<char>(engine() & 0xFF);
    }
    if (engine() % 4 == 0) text.resize(engine() % text.size());
    const auto parsed = parse_node_cards(text);
    if (parsed.has_error()) {
      ASSERT_LT(parsed.error().message.size(), 400U);
    }
  }
}

}  // namespace
}  // namespace mgpu
