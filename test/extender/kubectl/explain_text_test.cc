// What explain prints, against the files of test/golden/kubectl.
#include "extender/kubectl/explain_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/extender/kubectl/golden_view.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using testing::AllOf;
using testing::HasSubstr;

const std::string kExplained = MGPU_SOURCE_DIR "/test/golden/kubectl/explain-";

Json card_of_node(int index, const std::string& why) {
  Json card = {{"index", index}, {"container", "app"}, {"fits", why.empty()}};
  if (!why.empty()) card["why"] = why;
  return card;
}

Json waiting() {
  Json json = {{"namespace", "research"}, {"name", "waits"}};
  json["request"]["containers"] = Json::array(
      {{{"name", "app"}, {"kind", "app"}, {"cards", 2}, {"core", 50}, {"memoryMiB", 20'480}}});
  json["policy"] = "equilibrium/equilibrium";
  json["schedulerMessage"] = "0/3 nodes are available: 3 too few cards.";
  json["nodesFitting"] = 0;
  json["reasons"] = Json::array();
  json["reasons"].push_back(
      {{"reason", "node(s) had no single card with enough free mgpu-memory"}, {"nodes", 2}});
  json["reasons"].push_back({{"reason", "node(s) had too few healthy cards"}, {"nodes", 1}});
  json["pending"] = {
      {"why", "container app needs 2 cards of one node; no node has more than 1"},
      {"help", "It fits on gpu-1 with mgpu-memory 36864 instead of 40960 for container app"},
      {"ways",
       {"on gpu-1 with mgpu-memory 36864 instead of 40960 for container app",
        "on gpu-1 when research/train terminates"}}};
  json["nodes"] = Json::array();
  for (int i = 1; i <= 3; ++i) {
    json["nodes"].push_back(
        {{"name", "gpu-" + std::to_string(i)},
         {"fits", false},
         {"reason", i < 3 ? "node(s) had no single card with enough free mgpu-memory"
                          : "node(s) had too few healthy cards"},
         {"cards",
          {card_of_node(0, "mgpu-memory: requests 20480, 16000 free"),
           card_of_node(1, i < 3 ? "mgpu-core: requests 50, 20 free; mgpu-memory: "
                                   "requests 20480, 100 free"
                                 : "unhealthy: XID 79")}}});
  }
  return json;
}

Json landed() {
  Json json = waiting();
  for (const char* name : {"schedulerMessage", "pending"}) json.erase(name);
  json["node"] = "gpu-2";
  json["holds"]["containers"] = Json::array();
  json["holds"]["containers"].push_back(
      {{"name", "app"}, {"cards", {0, 3}}, {"model", "A100-80G"}, {"link", "NV2"}});
  json["now"] = {{"nodesFitting", 4}, {"rank", 2}, {"best", "gpu-7"}};
  return json;
}

void expect_text(const Json& json, bool wide, const std::string& name) {
  const auto text = explain_text(json, wide, false);
  ASSERT_TRUE(text) << text.error().message;
  expect_golden_text(*text, kExplained + name);
}

TEST(ExplainText, SaysWhyAPodWaits) {
  expect_text(waiting(), false, "waiting.txt");
  expect_text(waiting(), true, "waiting.wide.txt");
}

TEST(ExplainText, SaysWhyAPodIsWhereItIs) {
  expect_text(landed(), false, "landed.txt");
  Json full = landed();
  full["now"] = {{"nodesFitting", 0}};
  expect_text(full, false, "landed-full.txt");
}

TEST(ExplainText, SaysThatThePodIsNotValid) {
  const Json json = {{"namespace", "d"},
                     {"name", "p"},
                     {"request", {{"containers", Json::array()}}},
                     {"message", "container \"app\" requests memory without core"},
                     {"nodesFitting", 0},
                     {"reasons", Json::array()},
                     {"nodes", Json::array()}};
  const auto text = explain_text(json, false, false);
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "d/p cannot be placed: container \"app\" requests memory without core.\n");
}

TEST(ExplainText, ShowsTheReasonsOfAnOlderExtender) {
  Json json = waiting();
  json.erase("pending");
  EXPECT_THAT(*explain_text(json, false, false),
              AllOf(testing::StartsWith("research/waits cannot be placed: the reasons follow.\n"),
                    HasSubstr("      2   node(s) had no single card"),
                    testing::Not(HasSubstr("It would fit"))));
}

TEST(ExplainText, BeginsWithTheGateOfAPod) {
  Json json = waiting();
  json["gates"] = {"kueue.x-k8s.io/admission"};
  EXPECT_THAT(*explain_text(json, false, false),
              testing::StartsWith("research/waits is pending: it has the scheduling gate "
                                  "kueue.x-k8s.io/admission, and kube-scheduler does not consider "
                                  "it until that is removed, as by the queue that admits it.\n"));
}

TEST(ExplainText, IsShortWhateverTheNumberOfNodes) {
  Json json = waiting();
  for (int i = 4; i <= 40; ++i) json["nodes"].push_back(json["nodes"][0]);
  EXPECT_EQ(*explain_text(json, false, false), *explain_text(waiting(), false, false));
  json["nodesFitting"] = 2;
  EXPECT_THAT(*explain_text(json, false, false),
              HasSubstr("\nkube-scheduler: 0/3 nodes are available: "));
}

TEST(ExplainText, BeginsWithACardThatIsBroken) {
  Json json = landed();
  json["nodes"][1]["cards"][0]["why"] = "unhealthy: XID 79 since 2026-01-02T03:04:05Z";
  EXPECT_THAT(*explain_text(json, false, false),
              testing::StartsWith("research/waits is bound to gpu-2, where card 0 is unhealthy: "
                                  "XID 79 since 2026-01-02T03:04:05Z.\n"));
}

TEST(ExplainText, HasTheNotesOfABoundPod) {
  Json json = landed();
  json["message"] = "mgpu does not know the annotation d/gpu-modell, and ignores it";
  EXPECT_THAT(*explain_text(json, false, false),
              testing::EndsWith("\nNote: mgpu does not know the annotation d/gpu-modell, and "
                                "ignores it.\n"));
}

TEST(ExplainText, IsHarmlessWhateverTheNames) {
  Json json = waiting();
  json["name"] = hostile_text();
  json["schedulerMessage"] = hostile_text();
  json["nodes"][0]["name"] = hostile_text();
  json["nodes"][0]["cards"][0]["why"] = hostile_text();
  json["pending"]["why"] = hostile_text();
  json["pending"]["ways"][0] = hostile_text();
  json["request"]["containers"][0]["name"] = hostile_text();
  const std::string text = *explain_text(json, true, false);
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  for (const char* mark : {"\u202e", "\u2066", "\u200b", "\xff", "\x9b"})
    EXPECT_EQ(text.find(mark), std::string::npos);
}

TEST(ExplainText, NamesAnAnswerThatCannotBeRead) {
  const auto text = explain_text({{"namespace", "d"}}, false, false);
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message, HasSubstr("/inspect/explain of the extender"));
}

}  // namespace
}  // namespace mgpu::test
