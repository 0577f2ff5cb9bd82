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
  json["smallerRequests"] = Json::array();
  json["smallerRequests"].push_back(
      {{"node", "gpu-1"}, {"container", "app"}, {"core", 0}, {"memoryMiB", 2'048}});
  json["smallerRequests"].push_back(
      {{"node", "gpu-2"}, {"container", "app"}, {"core", 10}, {"memoryMiB", 4'096}});
  json["releases"] = Json::array();
  json["releases"].push_back(
      {{"node", "gpu-1"}, {"pods", {{{"namespace", "research"}, {"name", "train"}}}}});
  Json pods = Json::array();
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    pods.push_back({{"namespace", "team-b"}, {"name", name}});
  json["releases"].push_back({{"node", "gpu-2"}, {"pods", pods}});
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
  for (const char* name : {"schedulerMessage", "smallerRequests", "releases"}) json.erase(name);
  json["node"] = "gpu-2";
  json["holds"]["containers"] = Json::array();
  json["holds"]["containers"].push_back({{"name", "app"}, {"cards", {0, 3}}, {"link", "NV2"}});
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

TEST(ExplainText, IsShortWhateverTheNumberOfNodes) {
  Json json = waiting();
  for (int i = 4; i <= 40; ++i) json["nodes"].push_back(json["nodes"][0]);
  EXPECT_EQ(*explain_text(json, false, false), *explain_text(waiting(), false, false));
  json["nodesFitting"] = 2;
  EXPECT_THAT(*explain_text(json, false, false),
              AllOf(testing::StartsWith("research/waits is pending: its cards fit on 2 of 5 nodes, "
                                        "and kube-scheduler has not placed it.\n"),
                    HasSubstr("\nkube-scheduler: 0/3 nodes are available: ")));
}

TEST(ExplainText, BeginsWithACardThatIsBroken) {
  Json json = landed();
  json["nodes"][1]["cards"][0]["why"] = "unhealthy: XID 79 since 2026-01-02T03:04:05Z";
  EXPECT_THAT(*explain_text(json, false, false),
              testing::StartsWith("research/waits is bound to gpu-2, where card 0 is unhealthy: "
                                  "XID 79 since 2026-01-02T03:04:05Z.\n"));
}

TEST(ExplainText, IsHarmlessWhateverTheNames) {
  Json json = waiting();
  json["name"] = hostile_text();
  json["schedulerMessage"] = hostile_text();
  json["nodes"][0]["name"] = hostile_text();
  json["nodes"][0]["cards"][0]["why"] = hostile_text();
  json["releases"][0]["pods"][0]["name"] = hostile_text();
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

TEST(KindOfReason, LeavesOutTheNumbers) {
  EXPECT_EQ(kind_of_reason("mgpu-core: requests 30, 20 free; mgpu-memory: requests 9, 8 free"),
            "too little free mgpu-core and too little free mgpu-memory");
  EXPECT_EQ(kind_of_reason("requests the whole card, 30 % and 8 MiB are taken"),
            "requests the whole card");
}

TEST(KindOfReason, KeepsWhatIsWrongWithACard) {
  EXPECT_EQ(kind_of_reason("unhealthy: XID 79; ECC, 2"), "unhealthy: XID 79; ECC, 2");
}

}  // namespace
}  // namespace mgpu::test
