#include "plugin/cards/file/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;

const std::string kLabel = "vke.volcengine.com/mgpu-profile";

std::string profile_error(const std::string& fields) {
  const auto parsed = parse_profiles("profiles:\n- {" + fields + "}\n");
  return parsed ? "no error" : parsed.error().message;
}

std::vector<Profile> two_pools() {
  return {{.name = "train", .node_selector = {{"pool", "train"}}},
          {.name = "infer", .node_selector = {{"pool", "infer"}, {"zone", "a"}}},
          {.name = "spare"}};
}

std::string chosen_profile(const Labels& labels) {
  const auto profile = choose_profile(two_pools(), labels, kLabel);
  if (!profile) return profile.error().message;
  return *profile ? (*profile)->name : "none";
}

FoundCard profiled_card(int index, std::int64_t memory, const std::string& health = "Healthy") {
  FoundCard card;
  card.uuid = CardUuid("GPU-" + std::to_string(index));
  card.memory = MiB(memory);
  card.health = health;
  card.index = CardIndex(index);
  return card;
}

// "200% 900 Healthy"
std::string profiled_text(const FoundCard& card) {
  return std::to_string(card.core.value()) + "% " + std::to_string(card.memory.value()) + " " +
         card.health;
}

TEST(Profiles, AreReadWithAllTheirFields) {
  const auto parsed = parse_profiles(R"(
profiles:
- name: infer
  nodeSelector: {pool: infer, node.kubernetes.io/instance-type: g5}
  isolation: mps
  policy: spread/binpack
  minimumCore: 10
  minimumMemoryMiB: 2048
  reserveMiB: 1024
  reservedCards: [0, 7]
  computeFactor: 1.25
- name: plain
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const Profile infer{
      .name = "infer",
      .node_selector = {{"pool", "infer"}, {"node.kubernetes.io/instance-type", "g5"}},
      .isolation = "mps",
      .policy = "spread/binpack",
      .minimum = {Percent(10), MiB(2048)},
      .reserve = MiB(1024),
      .reserved_cards = {CardIndex(0), CardIndex(7)},
      .core = Percent(125)};
  EXPECT_THAT(*parsed, ElementsAre(infer, Profile{.name = "plain"}));
}

TEST(Profiles, WithABadFieldAreRefusedInOneSentence) {
  EXPECT_EQ(profile_error("name: a, memoryFactor: 2"),
            "profiles[0] has an unknown field \"memoryFactor\", expected name, nodeSelector, "
            "isolation, policy, minimumCore, minimumMemoryMiB, reserveMiB, reservedCards, "
            "computeFactor");
  EXPECT_EQ(profile_error("name: a, computeFactor: 0.5"),
            "profiles[0].computeFactor must be a number from 1 to 10, found \"0.5\"");
  EXPECT_EQ(profile_error("name: a, computeFactor: 11"),
            "profiles[0].computeFactor must be a number from 1 to 10, found \"11\"");
  EXPECT_EQ(profile_error("name: a, computeFactor: 1.255"),
            "profiles[0].computeFactor must have at most two decimals, found 1.255");
  EXPECT_EQ(profile_error("name: a, computeFactor: [2]"),
            "profiles[0].computeFactor must be a number from 1 to 10, found a list");
  EXPECT_EQ(profile_error("name: a, isolation: cgroup"),
            "profiles[0].isolation must be none, intercept, mps, driver, auto, found \"cgroup\"");
  EXPECT_EQ(profile_error("name: a, minimumCore: 101"),
            "profiles[0].minimumCore must be a whole number from 0 to 100, found \"101\"");
  EXPECT_EQ(profile_error("name: a, reservedCards: 1"),
            "profiles[0].reservedCards must be a list, found something else");
  EXPECT_EQ(profile_error("name: a, reservedCards: [1, 1]"),
            "profiles[0].reservedCards has card 1 twice");
  EXPECT_EQ(profile_error("name: a, nodeSelector: [pool]"),
            "profiles[0].nodeSelector must be a map of 1 to 16 labels");
  EXPECT_EQ(profile_error("name: -a"),
            "profiles[0].name must be the value of a label: 1 to 63 letters, digits, \"-\", \"_\" "
            "and \".\", found \"-a\"");
  EXPECT_EQ(profile_error("policy: spread"),
            "profiles[0].name must be a text of 1 to 96 bytes, found nothing");
  EXPECT_EQ(parse_profiles("profiles: [{name: a}, {name: a}]").error().message,
            "profiles[1].name \"a\" is that of another profile too");
}

TEST(Profiles, AreChosenByTheLabelsOfTheNode) {
  EXPECT_EQ(chosen_profile({}), "none");
  EXPECT_EQ(chosen_profile({{"pool", "train"}, {"zone", "b"}}), "train");
  EXPECT_EQ(chosen_profile({{"pool", "infer"}}), "none");
  EXPECT_EQ(chosen_profile({{"pool", "infer"}, {"zone", "a"}}), "infer");
}

TEST(Profiles, AreChosenByTheLabelThatNamesOneBeforeAllSelectors) {
  EXPECT_EQ(chosen_profile({{"pool", "train"}, {kLabel, "spare"}}), "spare");
  EXPECT_EQ(chosen_profile({{"pool", "train"}, {kLabel, "gone"}}),
            "label vke.volcengine.com/mgpu-profile names the profile \"gone\", expected one of "
            "train, infer, spare");
}

TEST(Profiles, ThatMatchTheSameNodeAreAnError) {
  std::vector<Profile> both = two_pools();
  both[1].node_selector = {{"zone", "a"}};
  const auto profile = choose_profile(both, {{"pool", "train"}, {"zone", "a"}}, kLabel);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().message,
            "the labels of the node match the profiles \"train\" and \"infer\", expected one; set "
            "the label vke.volcengine.com/mgpu-profile to the name of one of them");
}

TEST(Profiles, GiveCardsMoreComputeAndLessMemory) {
  const Profile profile{.name = "infer", .reserved_cards = {CardIndex(1)}, .core = Percent(200)};
  std::vector<FoundCard> cards{profiled_card(0, 1000), profiled_card(1, 1000),
                               profiled_card(2, 1000, "XID 79"), profiled_card(3, 100)};
  apply_profile(profile, MiB(100), cards);
  EXPECT_EQ(profiled_text(cards[0]), "200% 900 Healthy");
  EXPECT_EQ(profiled_text(cards[1]), "200% 900 reserved by profile infer");
  EXPECT_EQ(profiled_text(cards[2]), "200% 900 XID 79");
  // Its memory stays known.
  EXPECT_EQ(profiled_text(cards[3]), "200% 100 reserved by profile infer");

  std::vector<FoundCard> without_memory{profiled_card(0, kNoMemoryOfItsOwn.value())};
  apply_profile(profile, MiB(100), without_memory);
  EXPECT_EQ(profiled_text(without_memory[0]), "200% 1 Healthy");
}

}  // namespace
}  // namespace mgpu::plugin
