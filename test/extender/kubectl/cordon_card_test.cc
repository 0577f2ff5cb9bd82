// cordon-card and uncordon-card as users call them, with a scripted API server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kNode = "/api/v1/nodes/gpu-1";

class CordonCard : public testing::Test {
 protected:
  // A node with the cards 0 and 1 and this annotation, if any.
  void set_node(const std::string& cordoned) {
    nlohmann::json node = {{"metadata", {{"name", "gpu-1"}, {"resourceVersion", "7"}}}};
    auto& annotations = node["metadata"]["annotations"];
    annotations["vke.volcengine.com/mgpu-cards"] =
        R"({"version": 1, "cards": [
          {"index": 0, "uuid": "GPU-0", "model": "T4", "memoryMiB": 9000, "health": "Healthy"},
          {"index": 1, "uuid": "GPU-1", "model": "T4", "memoryMiB": 9000, "health": "XID 79"}]})";
    if (!cordoned.empty()) annotations["vke.volcengine.com/mgpu-cordoned-cards"] = cordoned;
    cluster.api.set(kNode, node.dump());
  }
  // "7: 0,1": the resourceVersion and the value of the annotation in a PATCH.
  static std::string text_of_patch(const std::string& body) {
    const auto metadata = nlohmann::json::parse(body)["metadata"];
    return metadata["resourceVersion"].get<std::string>() + ": " +
           metadata["annotations"]["vke.volcengine.com/mgpu-cordoned-cards"].dump();
  }

  ScriptedCluster cluster;
};

TEST_F(CordonCard, AddsTheCardToTheAnnotation) {
  set_node("");
  const Ran ran = cluster.with_config({"cordon-card", "gpu-1", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "node/gpu-1 card 1 cordoned\n");
  set_node("1");
  cluster.with_config({"cordon-card", "gpu-1", "0"});
  const auto patches = cluster.api.patches();
  ASSERT_EQ(patches.size(), 2U);
  EXPECT_EQ(text_of_patch(patches[0]), "7: \"1\"");
  EXPECT_EQ(text_of_patch(patches[1]), "7: \"0,1\"");
}

TEST_F(CordonCard, RemovesTheCardAndTheLastWithTheAnnotation) {
  set_node("0,1");
  EXPECT_EQ(cluster.with_config({"uncordon-card", "gpu-1", "0"}).out,
            "node/gpu-1 card 0 uncordoned\n");
  set_node("1");
  cluster.with_config({"uncordon-card", "gpu-1", "1"});
  const auto patches = cluster.api.patches();
  ASSERT_EQ(patches.size(), 2U);
  EXPECT_EQ(text_of_patch(patches[0]), "7: \"1\"");
  EXPECT_EQ(text_of_patch(patches[1]), "7: null");
}

TEST_F(CordonCard, WritesNothingThatIsAlreadySo) {
  set_node("1");
  EXPECT_EQ(cluster.with_config({"cordon-card", "gpu-1", "1"}).out,
            "node/gpu-1 card 1 already cordoned\n");
  EXPECT_EQ(cluster.with_config({"uncordon-card", "gpu-1", "0"}).out,
            "node/gpu-1 card 0 already uncordoned\n");
  EXPECT_THAT(cluster.api.patches(), IsEmpty());
}

TEST_F(CordonCard, ReadsTheNodeAgainAfterAConflict) {
  set_node("");
  cluster.api.refuse_patch(409);
  EXPECT_EQ(cluster.with_config({"cordon-card", "gpu-1", "1"}).code, 0);
  EXPECT_EQ(cluster.api.patches().size(), 2U);
  EXPECT_EQ(cluster.api.requests().size(), 4U);
}

// A card that has been removed may still be in the annotation.
TEST_F(CordonCard, NeedsTheCardToExistOnlyToCordonIt) {
  set_node("5");
  const Ran ran = cluster.with_config({"cordon-card", "gpu-1", "6"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "kubectl mgpu: node gpu-1 has no card 6\n");
  EXPECT_EQ(cluster.with_config({"uncordon-card", "gpu-1", "5"}).code, 0);
}

TEST_F(CordonCard, SaysWhyItFails) {
  EXPECT_THAT(cluster.with_config({"cordon-card", "gpu-1", "0"}).err,
              StartsWith("kubectl mgpu: get node gpu-1: HTTP 404"));
  set_node("one");
  EXPECT_THAT(cluster.with_config({"cordon-card", "gpu-1", "0"}).err,
              HasSubstr("kubectl annotate node gpu-1 vke.volcengine.com/mgpu-cordoned-cards- "
                        "removes it\n"));
  set_node("");
  cluster.api.refuse_patch(403);
  const Ran forbidden = cluster.with_config({"cordon-card", "gpu-1", "0"});
  EXPECT_EQ(forbidden.code, 1);
  EXPECT_THAT(forbidden.err, StartsWith("kubectl mgpu: annotate node gpu-1: HTTP 403"));
}

TEST_F(CordonCard, RefusesAWrongCommandLine) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"cordon-card"}, "NODE INDEX is missing"},
      {{"cordon-card", "gpu-1"}, "NODE INDEX is missing"},
      {{"cordon-card", "gpu-1", "x"}, "INDEX must be a whole number from 0 to 1023, found \"x\""},
      {{"uncordon-card", "gpu-1", "1024"}, "INDEX must be a whole number from 0 to 1023"},
      {{"cordon-card", "gpu-1", "0", "1"}, "unexpected argument \"1\""},
      {{"cordon-card", "G/1", "0"}, "NODE must be a name"},
  };
  for (const auto& [words, sentence] : cases) {
    const Ran ran = run(words);
    EXPECT_EQ(ran.code, 2) << sentence;
    EXPECT_THAT(ran.err, HasSubstr(sentence));
  }
}

}  // namespace
}  // namespace mgpu::test
