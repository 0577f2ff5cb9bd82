#include "common/contract/contract.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/contract/limits.h"

namespace mgpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

Contract default_contract() {
  return *Contract::for_domain(kDefaultResourceDomain);
}

std::vector<CardIndex> cards(std::initializer_list<int> values) {
  std::vector<CardIndex> indices;
  for (const int value : values) indices.emplace_back(value);
  return indices;
}

TEST(Contract, NamesEveryKeyUnderItsDomain) {
  const Contract c = *Contract::for_domain("gpu.example.com");
  EXPECT_EQ(c.domain, "gpu.example.com");
  EXPECT_EQ(c.core_resource, "gpu.example.com/mgpu-core");
  EXPECT_EQ(c.memory_resource, "gpu.example.com/mgpu-memory");
  EXPECT_EQ(c.assumed, "gpu.example.com/assumed");
  EXPECT_EQ(c.container_multiple_gpu, "gpu.example.com/container-multiple-gpu");
  EXPECT_EQ(c.policy, "gpu.example.com/mgpu-policy");
  EXPECT_EQ(c.gpu_model, "gpu.example.com/gpu-model");
  EXPECT_EQ(c.gpu_model_exclude, "gpu.example.com/gpu-model-exclude");
  EXPECT_EQ(c.gpu_uuid, "gpu.example.com/gpu-uuid");
  EXPECT_EQ(c.gpu_uuid_exclude, "gpu.example.com/gpu-uuid-exclude");
  EXPECT_EQ(c.gpu_links, "gpu.example.com/gpu-links");
  EXPECT_EQ(c.node_cards, "gpu.example.com/mgpu-cards");
  EXPECT_EQ(c.index_key("app"), "gpu.example.com/gpu-index-container-app");
}

TEST(Contract, TheLongestContainerNameMakesALegalKey) {
  const std::string key = default_contract().index_key(std::string(kContainerNameMax, 'c'));
  EXPECT_EQ(key.size() - key.find('/') - 1, 63U);
}

TEST(Contract, AcceptsDnsSubdomains) {
  for (const std::string domain :
       {"vke.volcengine.com", "a", "a-b.c", "0.1", "kubernetes.io.me", "nvidia.com", "requests"}) {
    EXPECT_TRUE(Contract::for_domain(domain).has_value()) << domain;
  }
  EXPECT_TRUE(Contract::for_domain(std::string(244, 'a')).has_value());
}

TEST(Contract, RefusesInvalidDnsSubdomains) {
  for (const std::string domain : {"", ".", "a.", ".a", "a..b", "-a", "a-", "a.-b", "A.com", "a_b",
                                   "a/b", "a b", "a\n", "\xC3\xA4.de"}) {
    const auto made = Contract::for_domain(domain);
    ASSERT_TRUE(made.has_error()) << domain;
    EXPECT_THAT(made.error().message, HasSubstr("must be a DNS subdomain")) << domain;
  }
  EXPECT_TRUE(Contract::for_domain(std::string(245, 'a')).has_error());
  EXPECT_TRUE(Contract::for_domain(std::string(10'000'000, '.')).has_error());
}

TEST(Contract, RefusesReservedDomains) {
  for (const std::string domain :
       {"kubernetes.io", "gpu.kubernetes.io", "mykubernetes.io", "requests.example.com"}) {
    const auto made = Contract::for_domain(domain);
    ASSERT_TRUE(made.has_error()) << domain;
    EXPECT_THAT(made.error().message, HasSubstr("reserved by Kubernetes")) << domain;
  }
}

TEST(CardIndices, AreWrittenAsTheyAreRead) {
  const std::pair<std::vector<CardIndex>, std::string> cases[] = {
      {cards({0}), "0"},
      {cards({3}), "3"},
      {cards({0, 2}), "0,2"},
      {cards({9, 10, 1023}), "9,10,1023"}};
  for (const auto& [indices, text] : cases) {
    EXPECT_EQ(format_card_indices(indices), text);
    EXPECT_EQ(*parse_card_indices(text), indices);
  }
}

TEST(CardIndices, HaveOneForm) {
  std::mt19937 engine(5);
  constexpr std::string_view kAlphabet = "0123,,9 -";
  for (int round = 0; round < 50'000; ++round) {
    std::string text(engine() % 8, ' ');
    for (char& c : text) c = kAlphabet[engine() % kAlphabet.size()];
    const auto parsed = parse_card_indices(text);
    if (parsed.has_error()) continue;
    ASSERT_EQ(format_card_indices(*parsed), text);
  }
}

TEST(CardIndices, AreRefusedByName) {
  struct Case {
    std::string text;
    std::string why;
  };
  const Case cases[] = {
      {"", "must be numbers from 0 to 1023"},
      {",", "must be numbers"},
      {"0,", "found \"\""},
      {",0", "found \"\""},
      {"0,,1", "found \"\""},
      {"one", "found \"one\""},
      {"-1", "found \"-1\""},
      {"-0", "found \"-0\""},
      {"+1", "found \"+1\""},
      {"01", "found \"01\""},
      {" 1", "found \" 1\""},
      {"0, 1", "found \" 1\""},
      {"1.0", "found \"1.0\""},
      {"1e1", "found \"1e1\""},
      {"1024", "found \"1024\""},
      {"99999999999999999999", "found \"99999999999999999999\""},
      {"1,0", "must be ascending and without duplicates"},
      {"1,1", "must be ascending and without duplicates"},
  };
  for (const Case& c : cases) {
    const auto parsed = parse_card_indices(c.text);
    ASSERT_TRUE(parsed.has_error()) << c.text;
    EXPECT_THAT(parsed.error().message, HasSubstr("card index list \"" + c.text + "\""));
    EXPECT_THAT(parsed.error().message, HasSubstr(c.why));
  }
}

TEST(CardIndices, AreAtMostTheCardsOfANode) {
  std::string text = "0";
  for (int i = 1; i < 64; ++i) text += "," + std::to_string(i);
  EXPECT_EQ(parse_card_indices(text)->size(), 64U);
  EXPECT_THAT(parse_card_indices(text + ",64").error().message, HasSubstr("more than 64 entries"));
}

TEST(CardIndices, ThatAreInvalidAreNotFormatted) {
  EXPECT_DEATH(format_card_indices({}), "list is empty");
  EXPECT_DEATH(format_card_indices(cards({2, 1})), "not strictly ascending");
  EXPECT_DEATH(format_card_indices(cards({1, 1})), "not strictly ascending");
  EXPECT_DEATH(format_card_indices(cards({-1})), "not strictly ascending");
  EXPECT_DEATH(format_card_indices(cards({1024})), "out of range");
}

TEST(CardCounts, AreOnePerContainer) {
  EXPECT_THAT(*parse_card_counts("2,0,1"), ElementsAre(2, 0, 1));
  EXPECT_THAT(*parse_card_counts("0"), ElementsAre(0));
  EXPECT_THAT(*parse_card_counts("64"), ElementsAre(64));
  EXPECT_THAT(*parse_card_counts(" 2, 0 ,\t1 "), ElementsAre(2, 0, 1));
}

TEST(CardCounts, AreRefusedByName) {
  for (const std::string text :
       {"", " ", ",", "1,", "two", "-1", "1.5", "65", "1 1", "01", "2;1"}) {
    const auto parsed = parse_card_counts(text);
    ASSERT_TRUE(parsed.has_error()) << text;
    EXPECT_THAT(parsed.error().message,
                HasSubstr("card count list \"" + text + "\" must be one number from 0 to 64"));
  }
}

TEST(CardCounts, MayHaveAMillionEntries) {
  std::string text = "1";
  for (int i = 1; i < 1'000'000; ++i) text += ",1";
  EXPECT_EQ(parse_card_counts(text)->size(), 1'000'000U);
}

TEST(Names, AreReadWithoutBlanks) {
  EXPECT_THAT(*parse_names("A100"), ElementsAre("A100"));
  EXPECT_THAT(*parse_names(" NVIDIA H100 ,\tA100 "), ElementsAre("NVIDIA H100", "A100"));
}

TEST(Names, MustNotBeEmpty) {
  for (const std::string text : {"", " ", ",", "a,", ",a", "a, ,b"}) {
    ASSERT_TRUE(parse_names(text).has_error()) << text;
    EXPECT_THAT(parse_names(text).error().message, HasSubstr("one of them is empty"));
  }
}

TEST(Names, AreLimitedInNumber) {
  std::string text = "a";
  for (int i = 1; i < 64; ++i) text += ",a";
  EXPECT_EQ(parse_names(text)->size(), 64U);
  EXPECT_THAT(parse_names(text + ",a").error().message, HasSubstr("more than 64 names"));
}

TEST(Names, AreAsLongAsTheTextOfACardAtMost) {
  const std::string longest(kCardTextMax, 'a');
  EXPECT_THAT(*parse_names("b," + longest), ElementsAre("b", longest));
  EXPECT_THAT(parse_names("b," + longest + "a").error().message,
              HasSubstr("has a name of 97 bytes; models and UUIDs of cards have at most 96"));
  EXPECT_LT(parse_names(std::string(4000, 'a')).error().message.size(), 500U);
}

TEST(PlacementAnnotations, HaveTheCardsOfEachContainer) {
  EXPECT_THAT(
      placement_annotations(default_contract(), {{"app", cards({0, 2})}, {"side", cards({1})}}),
      UnorderedElementsAre(Pair("vke.volcengine.com/assumed", "true"),
                           Pair("vke.volcengine.com/gpu-index-container-app", "0,2"),
                           Pair("vke.volcengine.com/gpu-index-container-side", "1")));
}

TEST(PlacementAnnotations, NeverHaveAnInvalidKey) {
  const std::string long_name(44, 'c');
  EXPECT_DEATH(placement_annotations(default_contract(), {{long_name, cards({0})}}), "too long");
  EXPECT_DEATH(placement_annotations(default_contract(), {{"app", {}}}), "list is empty");
}

}  // namespace
}  // namespace mgpu
