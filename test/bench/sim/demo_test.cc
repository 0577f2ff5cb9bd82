#include "bench/sim/demo.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "common/base/files.h"
#include "extender/placement/policy.h"

namespace mgpu::sim {
namespace {

// The standard output of the demo of deploy/examples.
std::string output_of_demo(DemoOutput output) {
  DemoSettings settings{.manifests = *embedded_nodes(),
                        .policy = std::string(extender::kDefaultPolicy),
                        .resource_domain = std::string(kDefaultResourceDomain),
                        .output = output};
  settings.manifests.pods = embedded_pods()->pods;
  testing::internal::CaptureStdout();
  const auto ran = run_demo(settings);
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(ran) << ran.error().message;
  return printed;
}

TEST(Demo, PrintsEveryPodAsJson) {
  const auto pods = nlohmann::json::parse(output_of_demo(DemoOutput::kJson));
  ASSERT_EQ(pods.size(), 8U);
  EXPECT_EQ(pods[4]["name"], "two-whole-cards");
  EXPECT_EQ(pods[4]["namespace"], "default");
  EXPECT_EQ(pods[4]["node"], "plain-c");
  EXPECT_EQ(pods[4]["annotations"]["vke.volcengine.com/gpu-index-container-train"], "0,1");
  EXPECT_EQ(pods[4]["reason"], "");
  EXPECT_EQ(pods[7]["node"], "");
  EXPECT_THAT(pods[7]["reason"], testing::StartsWith("0/3 nodes are available: "));
}

TEST(Demo, PrintsNodesAndPodsAsText) {
  const std::string text = output_of_demo(DemoOutput::kScreen);
  EXPECT_THAT(text, testing::HasSubstr("annotations under vke.volcengine.com/"));
  EXPECT_THAT(text, testing::HasSubstr("mixed-b\n  0  A100-80G 81559 MiB "));
  EXPECT_THAT(text, testing::HasSubstr("default/too-wide"));
}

TEST(Demo, DrawsTheImageOfTheReadme) {
  const auto committed = read_file(MGPU_SOURCE_DIR "/deploy/demo.svg", 1 << 20, "image");
  ASSERT_TRUE(committed);
  EXPECT_EQ(output_of_demo(DemoOutput::kSvg), *committed)
      << "draw it again: deploy/demo.sh --output svg >deploy/demo.svg";
}

}  // namespace
}  // namespace mgpu::sim
