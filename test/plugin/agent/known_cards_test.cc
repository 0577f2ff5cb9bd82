#include "plugin/agent/known_cards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "common/contract/limits.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using test::card_facts;
using testing::HasSubstr;
using testing::IsEmpty;

KnownCards two_cards() {
  KnownCards known;
  for (const int index : {0, 5}) known[CardIndex(index)] = card_facts(index);
  known[CardIndex(5)].health = "Lost";
  known[CardIndex(5)].since = "2026-01-02T00:00:00Z";
  return known;
}

TEST(CardIndicesFile, IsReadAsItWasWritten) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("made/cards.json");
  ASSERT_TRUE(save_card_indices(file, two_cards()));
  const auto loaded = load_card_indices(file);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, two_cards());
}

// More than the annotation lists.
TEST(CardIndicesFile, HoldsAllCardsThatTheNodeHasHad) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("cards.json");
  KnownCards known;
  for (int i = 0; i <= kCardIndexMax; ++i) {
    known[CardIndex(i)] = card_facts(i);
    known[CardIndex(i)].model = std::string(kCardTextMax, 'm');
    known[CardIndex(i)].health = std::string(kCardTextMax, 'h');
  }
  ASSERT_TRUE(save_card_indices(file, known));
  const auto loaded = load_card_indices(file);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*loaded, known);
}

TEST(CardIndicesFile, MayHaveNoCards) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("cards.json");
  ASSERT_TRUE(save_card_indices(file, {}));
  EXPECT_THAT(load_card_indices(file).value(), IsEmpty());
}

TEST(CardIndicesFile, ReportsWhyItCannotBeRead) {
  const test::ScratchFolder folder;
  const std::string file = folder.path("cards.json");
  EXPECT_THAT(load_card_indices(file).error().message, HasSubstr("No such file"));
  for (const char* text : {"", "{", "[]", R"({"version": 7, "cards": []})"}) {
    std::ofstream(folder.path("cards.json")) << text;
    const auto loaded = load_card_indices(file);
    ASSERT_FALSE(loaded) << text;
    EXPECT_THAT(loaded.error().message, HasSubstr(folder.path("cards.json") + ": "));
  }
}

TEST(CardIndicesFile, ReportsWhyItCannotBeWritten) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("file")) << "";
  EXPECT_THAT(save_card_indices(folder.path("file/cards.json"), two_cards()).error().message,
              HasSubstr(folder.path("file")));
}

class FetchCardIndicesTest : public testing::Test {
 public:
  Result<KnownCards> fetch() {
    return fetch_card_indices(api_.transport(), NodeName("n1"), test::contract());
  }
  void annotate_node(const std::string& value) {
    const test::PodApi::Json patch = {
        {"metadata", {{"annotations", {{test::contract().node_cards, value}}}}}};
    api_.call(kube::Method::kPatch, "/api/v1/nodes/n1", patch.dump());
  }

  test::PodApi api_;
};

TEST_F(FetchCardIndicesTest, ReadsTheAnnotationOfTheNode) {
  api_.create_node();
  std::vector<CardFacts> cards;
  for (const auto& [index, card] : two_cards()) cards.push_back(card);
  annotate_node(format_node_cards(cards));
  EXPECT_EQ(fetch().value(), two_cards());
}

TEST_F(FetchCardIndicesTest, ReturnsNoCardsForANewNode) {
  EXPECT_THAT(fetch().value(), IsEmpty()) << "no node object";
  api_.create_node();
  EXPECT_THAT(fetch().value(), IsEmpty()) << "no annotation";
}

TEST_F(FetchCardIndicesTest, RejectsAnInvalidAnnotation) {
  api_.create_node();
  annotate_node("{");
  EXPECT_THAT(fetch().error().message,
              HasSubstr("annotation " + test::contract().node_cards + " of node n1: "));
}

TEST_F(FetchCardIndicesTest, FailsWithoutTheApiServer) {
  api_.create_node();
  api_.cut_off(true);
  EXPECT_THAT(fetch().error().message, HasSubstr("get node n1: "));
}

}  // namespace
}  // namespace mgpu::plugin
