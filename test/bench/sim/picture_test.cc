#include "bench/sim/picture.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace mgpu::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PictureTest : public ::testing::Test {
 protected:
  static kube::Node node(const std::string& cards) {
    kube::Node node;
    node.metadata.name = "n1";
    node.metadata.annotations["vke.volcengine.com/mgpu-cards"] =
        "{\"version\": 1, \"cards\": [" + cards + "]}";
    return node;
  }

  static kube::Pod pod(const std::string& name, const std::string& core,
                       const std::string& memory) {
    kube::Pod pod;
    pod.metadata.name = name;
    pod.metadata.name_space = "default";
    pod.metadata.uid = name + "-uid";
    pod.containers.push_back(
        {"app",
         {{"vke.volcengine.com/mgpu-core", core}, {"vke.volcengine.com/mgpu-memory", memory}},
         {}});
    return pod;
  }

  static kube::Pod bound(kube::Pod pod, const std::string& cards) {
    pod.node_name = "n1";
    pod.metadata.annotations["vke.volcengine.com/assumed"] = "true";
    pod.metadata.annotations["vke.volcengine.com/gpu-index-container-app"] = cards;
    return pod;
  }

  static constexpr const char* kCard =
      R"({"index": 0, "uuid": "GPU-0", "model": "V100", "memoryMiB": 32000, "health": "Healthy"})";

  Contract contract_ = *Contract::for_domain(kDefaultResourceDomain);
};

TEST_F(PictureTest, ShowsBothPodsOfASharedCard) {
  const Picture picture = read_picture(
      {node(kCard)}, {bound(pod("a", "80", "24000"), "0"), bound(pod("b", "20", "8000"), "0")},
      contract_);
  ASSERT_EQ(picture.nodes.at(0).cards.at(0).pieces.size(), 2u);
  const std::string text = draw(picture, false);
  // Of 20 cells, 80 % are 16 and 20 % are 4; 24000 of 32000 MiB are 15 and 8000 MiB are 5.
  EXPECT_THAT(text, HasSubstr("[aaaaaaaaaaaaaaaabbbb] 100 %"));
  EXPECT_THAT(text, HasSubstr("[aaaaaaaaaaaaaaabbbbb] 100 %"));
  EXPECT_THAT(text, HasSubstr("gpu-index-container-app: \"0\""));
}

TEST_F(PictureTest, ShowsTheReasonAndDetailsOfAPendingPod) {
  Picture picture = read_picture({node(kCard)}, {pod("wide", "90", "30000")}, contract_);
  picture.pods[0].reason = "0/1 nodes are available: 1 too few cards.";
  picture.pods[0].details = {"n1 card 0: mgpu-core: requests 90, 20 free"};
  const std::string text = draw(picture, false);
  EXPECT_THAT(text, HasSubstr("pending"));
  EXPECT_THAT(text, HasSubstr("0/1 nodes are available: 1 too few cards."));
  EXPECT_THAT(text, HasSubstr("n1 card 0: mgpu-core: requests 90, 20 free"));
}

TEST_F(PictureTest, ShowsThatAnUnhealthyCardIsNotOffered) {
  const Picture picture = read_picture(
      {node(
          R"({"index": 0, "uuid": "GPU-0", "model": "T4", "memoryMiB": 15109, "health": "Xid 79"})")},
      {}, contract_);
  EXPECT_THAT(draw(picture, false), HasSubstr("unhealthy, not offered"));
}

TEST_F(PictureTest, HasColoursOnlyIfRequested) {
  const Picture picture =
      read_picture({node(kCard)}, {bound(pod("a", "80", "24000"), "0")}, contract_);
  EXPECT_THAT(draw(picture, false), Not(HasSubstr("\x1b")));
  EXPECT_THAT(draw(picture, true), HasSubstr("\x1b["));
}

TEST_F(PictureTest, DrawsOvercommittedCardsWithinTheBar) {
  Picture picture =
      read_picture({node(kCard)},
                   {bound(pod("a", "80", "24000"), "0"), bound(pod("b", "80", "24000"), "0"),
                    bound(pod("c", "x", "y"), "zero"), bound(pod("d", "1", "300"), "9")},
                   contract_);
  const std::string text = draw(picture, false);
  EXPECT_THAT(text, HasSubstr("[aaaaaaaaaaaaaaaabbbb] 160 %"));
}

TEST_F(PictureTest, ShowsNoShareOfATerminatedPod) {
  kube::Pod done = bound(pod("a", "80", "24000"), "0");
  done.phase = "Succeeded";
  EXPECT_TRUE(read_picture({node(kCard)}, {done}, contract_).nodes[0].cards[0].pieces.empty());
}

}  // namespace
}  // namespace mgpu::sim
