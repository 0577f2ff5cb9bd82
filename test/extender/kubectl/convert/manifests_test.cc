#include "extender/kubectl/convert/manifests.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/kubectl/convert/limits.h"

namespace mgpu::test {
namespace {

using kubectl::convert::convert_manifests;
using kubectl::convert::Converted;
using kubectl::convert::ConvertOptions;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ConvertOptions default_options() {
  return {.contract = *Contract::for_domain(kDefaultResourceDomain)};
}

Result<Converted> convert_with_defaults(const std::string& text) {
  return convert_manifests(text, default_options());
}

std::string whole_card(const std::string& name) {
  return fmt::format(
      "{{kind: Pod, metadata: {{name: {}}}, spec: {{containers: [{{name: app, resources: {{limits: "
      "{{nvidia.com/gpu: 1}}}}}}]}}}}\n",
      name);
}

TEST(ConvertManifests, PrintsFilesWithoutSuchRequestsByteForByte) {
  for (const std::string text :
       {"", "# only a comment\n", "kind:   Pod   # kept\nspec: {containers: []}\n",
        "kind: ConfigMap\ndata: {a: 'b'}\n---\nno: kind\n"}) {
    const auto converted = convert_with_defaults(text);
    ASSERT_TRUE(converted) << converted.error().message;
    EXPECT_EQ(converted->text, text);
    EXPECT_THAT(converted->changes, IsEmpty());
    EXPECT_THAT(converted->refusals, IsEmpty());
  }
}

TEST(ConvertManifests, ChangesNothingIfOnePodIsRefused) {
  const std::string text = whole_card("good") + "---\n" +
                           "{kind: Pod, metadata: {name: bad, namespace: a}, spec: {containers: "
                           "[{name: app, resources: {limits: {nvidia.com/gpu: -1}}}]}}\n";
  const auto converted = convert_with_defaults(text);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_EQ(converted->text, text);
  EXPECT_THAT(
      converted->refusals,
      ElementsAre("Pod a/bad: container \"app\" requests nvidia.com/gpu -1; expected a whole "
                  "number from 0 to 1073741824"));
}

TEST(ConvertManifests, ReadsJson) {
  const auto converted = convert_with_defaults(
      R"({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [)"
      R"({"name": "app", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}})");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_EQ(
      converted->text,
      R"({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [)"
      R"({"name": "app", "resources": {"limits": {"vke.volcengine.com/mgpu-core": "200"}}}]}})"
      "\n");
}

TEST(ConvertManifests, KeepsTextsAndNumbersApart) {
  const std::string others =
      "a: \"1\"\nb: 1\nc: \"true\"\nd: true\ne: \"\"\nf: ~\ng: -1\nh: 1e3\ni: \"# no comment\"\n"
      "j: \"tab\\there\"\nk: |\n  first\n    second\n  third\nl: \"two\\nlines\"\nm: [ ]\nn: "
      "\"\\u00e9\"\n";
  const auto converted = convert_with_defaults(others + "---\n" + whole_card("a"));
  ASSERT_TRUE(converted) << converted.error().message;
  const std::string text = converted->text;
  for (const char* line :
       {"a: \"1\"\n", "b: 1\n", "c: \"true\"\n", "d: true\n", "e: \"\"\n", "f: ~\n", "g: -1\n",
        "h: 1e3\n", "i: \"# no comment\"\n", "j: \"tab\\there\"\n",
        "k: |\n  first\n    second\n  third\n", "l: \"two\\nlines\"\n", "m: []\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(ConvertManifests, ConvertsEachContainerThatSharesAnAnchor) {
  const auto converted = convert_with_defaults(
      "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
      "  - {name: one, resources: &both {limits: {nvidia.com/gpu: 1}}}\n"
      "  - {name: two, resources: *both}\n");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->changes, SizeIs(2));
  EXPECT_THAT(converted->text,
              AllOf(HasSubstr("{name: one, resources: {limits: {vke.volcengine.com/mgpu-core: "
                              "\"100\"}}}"),
                    HasSubstr("{name: two, resources: {limits: {vke.volcengine.com/mgpu-core: "
                              "\"100\"}}}")));
}

TEST(ConvertManifests, GivesObjectsThatShareAnAnchorValuesOfTheirOwn) {
  const auto converted = convert_with_defaults(
      "kind: List\nitems:\n"
      "- {kind: Pod, metadata: &m {name: a, annotations: {b: c}}, spec: {containers: [{name: app, "
      "resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 10, nvidia.com/gpucores: "
      "10}}}]}}\n"
      "- {kind: Pod, metadata: *m, spec: {containers: [{name: app}]}}\n");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->refusals, IsEmpty());
  EXPECT_THAT(converted->text, AllOf(HasSubstr("{name: a, annotations: {b: c, vke.volcengine.com/"),
                                     HasSubstr("metadata: {name: a, annotations: {b: c}}")));
}

TEST(ConvertManifests, ConvertsWhatIsMerged) {
  const auto converted = convert_with_defaults(
      "kind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
      "  - {name: one, resources: &both {limits: {nvidia.com/gpu: 1}}}\n"
      "  - {name: two, resources: {<<: *both}}\n");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->changes, SizeIs(2));
  EXPECT_THAT(converted->text, HasSubstr("{name: two, resources: {limits: {vke.volcengine.com/"
                                         "mgpu-core: \"100\"}}}"));
}

TEST(ConvertManifests, RefusesObjectsWhosePodsItDoesNotKnow) {
  const auto converted = convert_with_defaults(
      "kind: TFJob\nmetadata: {name: train}\nspec: {tfReplicaSpecs: {Worker: {template: {spec: "
      "{containers: [{name: app, resources: {limits: {tencent.com/vcuda-core: 100}}}]}}}}}\n");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->refusals,
              ElementsAre("TFJob train: has tencent.com/vcuda-core, but this kind of object is not "
                          "converted"));
  const auto nameless = convert_with_defaults("resources: {limits: {nvidia.com/gpu: 1}}\n");
  ASSERT_TRUE(nameless) << nameless.error().message;
  EXPECT_THAT(nameless->refusals,
              ElementsAre("object in document 1: has nvidia.com/gpu, but this kind of object is "
                          "not converted"));
}

TEST(ConvertManifests, RefusesLimitsThatAreNoAmounts) {
  for (const auto& [limits, why] :
       {std::pair("[nvidia.com/gpu]", "limits is not a map"),
        std::pair("{nvidia.com/gpu: [1]}", "limits nvidia.com/gpu is not a number or a text")}) {
    const auto converted = convert_with_defaults(
        fmt::format("{{kind: Pod, metadata: {{name: a}}, spec: {{containers: [{{name: app, "
                    "resources: {{limits: {}}}}}]}}}}",
                    limits));
    ASSERT_TRUE(converted) << converted.error().message;
    EXPECT_THAT(converted->refusals, ElementsAre(fmt::format("Pod a: container \"app\": {}", why)));
  }
}

TEST(ConvertManifests, RefusesDifferentLimitsAndRequests) {
  const auto converted = convert_with_defaults(
      "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, resources: {limits: "
      "{nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}}]}}");
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->refusals,
              ElementsAre("Pod a: container \"app\" has limits nvidia.com/gpu 2 and requests 1; "
                          "expected equal amounts"));
}

TEST(ConvertManifests, UsesTheSchedulerOfTheOptions) {
  ConvertOptions options = default_options();
  options.scheduler = "mgpu-scheduler";
  const auto converted = convert_manifests(whole_card("a"), options);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->text, HasSubstr("schedulerName: \"mgpu-scheduler\""));
  const auto other = convert_manifests(
      "{kind: Pod, metadata: {name: a}, spec: {schedulerName: volcano, containers: [{name: app, "
      "resources: {limits: {nvidia.com/gpu: 1}}}]}}",
      options);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_THAT(other->text, HasSubstr("schedulerName: volcano"));
}

TEST(ConvertManifests, NamesWhatIsNoObject) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"a: [", "not YAML: line 1: "},
           {"a: 1\n---\n- a list\n", "line 3: has a list, expected a Kubernetes object"}}) {
    const auto converted = convert_with_defaults(text);
    ASSERT_FALSE(converted) << text;
    EXPECT_THAT(converted.error().message, HasSubstr(why));
  }
}

TEST(ConvertManifests, LimitsTheNumberOfRefusals) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "---\n{kind: TFJob, spec: {nvidia.com/gpu: 1}}\n";
  }
  const auto converted = convert_with_defaults(text);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_THAT(converted->refusals, SizeIs(kubectl::convert::kRefusalsMax));
}

}  // namespace
}  // namespace mgpu::test
