// `kubectl mgpu convert` as users call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/files.h"
#include "extender/kubectl/verb.h"
#include "test/support/scratch_folder.h"

namespace mgpu::test {
namespace {

using testing::HasSubstr;

struct ConvertRun {
  int code = 0;
  std::string out;
  std::string err;
};

ConvertRun run_convert(const std::vector<std::string>& flags) {
  std::vector<const char*> arguments = {"kubectl-mgpu", "convert"};
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());
  ConvertRun ran;
  kubectl::Console console{.print = [&](std::string_view text) { ran.out += text; },
                           .print_error = [&](std::string_view text) { ran.err += text; }};
  ran.code =
      kubectl::run_kubectl_mgpu(static_cast<int>(arguments.size()), arguments.data(), console);
  return ran;
}

std::string manifest_with(const std::string& limits) {
  return "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, resources: {limits: {" +
         limits + "}}}]}}\n";
}

class ConvertCommand : public testing::Test {
 protected:
  ConvertRun convert(const std::string& text, std::vector<std::string> flags = {}) {
    const std::string path = folder_.path() + "/pod.yaml";
    EXPECT_TRUE(write_file(path, text, Durability::kProcess));
    flags.insert(flags.begin(), {"-f", path});
    return run_convert(flags);
  }

  ScratchFolder folder_;
};

TEST_F(ConvertCommand, PrintsManifestsAndWhatWasChanged) {
  const auto ran = convert(manifest_with("nvidia.com/gpu: 1"));
  EXPECT_EQ(ran.code, kubectl::kSucceeded);
  EXPECT_EQ(ran.out,
            "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: app, resources: {limits: "
            "{vke.volcengine.com/mgpu-core: \"100\"}}}]}}\n");
  EXPECT_EQ(ran.err,
            "# Pod a: container \"app\" requests vke.volcengine.com/mgpu-core 100 instead of "
            "nvidia.com/gpu 1\n"
            "# 1 of the pods do not tolerate the taint nvidia.com/gpu, which some platforms add "
            "only to pods that request nvidia.com/gpu\n");
}

TEST_F(ConvertCommand, SaysWhatItLeaves) {
  const std::string pod = "kind: Pod\nmetadata: {name: p";
  const std::string limits = "spec: {tolerations: [{operator: Exists}], containers: [{name: c, ";
  const std::string gpu = "resources: {limits: {nvidia.com/gpu: 1}}}]";
  const std::pair<std::string, std::string> cases[] = {
      {pod + ", annotations: {gpu-fraction: \"0.5\"}}\n" + limits + "}]}\n",
       "Pod p: gpu-fraction of KAI is not converted"},
      {pod + "}\n" + limits + "resources: {limits: {volcano.sh/vgpu-number: 1}}}]}\n",
       "Pod p: volcano.sh/vgpu-number of Volcano is not converted"},
      {pod + "}\n" + limits + "resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]}\n",
       "Pod p: nvidia.com/mig-1g.10gb of MIG is not converted"},
      {pod + "}\n" + limits + gpu + ", schedulerName: kai-scheduler}\n",
       "Pod p: schedulerName kai-scheduler stays, and only a kube-scheduler that calls the "
       "extender "
       "gives the pod cards"},
      {"kind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.nvidia.com/gpu: 4}}\n",
       "ResourceQuota q: counts requests.nvidia.com/gpu, which converted pods do not request; it "
       "is "
       "not converted"},
      {"apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: q}\n"
       "spec: {resourceGroups: [{coveredResources: [nvidia.com/gpu]}]}\n",
       "counts nvidia.com/gpu, which converted pods"}};
  for (const auto& [text, sentence] : cases) {
    const auto ran = convert(text);
    EXPECT_EQ(ran.code, kubectl::kFoundOrFailed) << sentence;
    EXPECT_THAT(ran.err, HasSubstr(sentence));
    EXPECT_THAT(ran.err, testing::Not(HasSubstr("tolerate")));
    EXPECT_NE(ran.out, "");
  }
}

TEST_F(ConvertCommand, KeepsComments) {
  const auto ran = convert(
      "# of team a\n"
      "kind: Pod  # the trainer\n"
      "metadata: {name: p}\n"
      "\n"
      "spec:\n"
      "  containers:\n"
      "  # trains\n"
      "  - name: app\n"
      "    resources:\n"
      "      limits:\n"
      "        # one is enough\n"
      "        nvidia.com/gpu: 1  # a T4\n"
      "        cpu: 1  # for loading\n");
  EXPECT_EQ(ran.code, kubectl::kSucceeded);
  EXPECT_EQ(ran.out,
            "# of team a\n"
            "kind: Pod  # the trainer\n"
            "metadata: {name: p}\n"
            "\n"
            "spec:\n"
            "  containers:\n"
            "    # trains\n"
            "    - name: app\n"
            "      resources:\n"
            "        limits:\n"
            "          # one is enough\n"
            "          cpu: 1  # for loading\n"
            "          vke.volcengine.com/mgpu-core: \"100\"\n");
}

TEST_F(ConvertCommand, ConvertsSeveralFiles) {
  const std::string other = folder_.path() + "/other.yaml";
  EXPECT_TRUE(write_file(other, "kind: Service\nmetadata: {name: s}\n", Durability::kProcess));
  const auto ran = convert(manifest_with("nvidia.com/gpu: 1"), {"-f", other});
  EXPECT_EQ(ran.code, kubectl::kSucceeded);
  EXPECT_THAT(ran.out, HasSubstr("mgpu-core: \"100\"}}}]}}\n---\nkind: Service\n"));
  EXPECT_EQ(convert(manifest_with("nvidia.com/gpumem: 10"), {"-f", other}).out, "");
}

TEST_F(ConvertCommand, FlagsSayWhatManifestsDoNot) {
  EXPECT_THAT(convert(manifest_with("nvidia.com/gpumem-percentage: 25"),
                      {"--hami-core", "20", "--hami-card-memory-mib", "16000"})
                  .out,
              HasSubstr("mgpu-core: \"20\", vke.volcengine.com/mgpu-memory: \"4000\""));
  EXPECT_THAT(convert(manifest_with("aliyun.com/gpu-mem: 300"),
                      {"--aliyun-core", "5", "--aliyun-memory-unit", "MiB"})
                  .out,
              HasSubstr("mgpu-core: \"5\", vke.volcengine.com/mgpu-memory: \"300\""));
  EXPECT_THAT(convert(manifest_with("nvidia.com/gpu: 1"),
                      {"--resource-domain", "gpus.example.com", "--scheduler-name", "mgpu"})
                  .out,
              HasSubstr("{gpus.example.com/mgpu-core: \"100\"}}}], schedulerName: \"mgpu\"}"));
}

TEST_F(ConvertCommand, PrintsNothingButTheReasonIfAPodIsRefused) {
  const auto ran = convert(manifest_with("nvidia.com/gpumem: 10"));
  EXPECT_EQ(ran.code, kubectl::kFoundOrFailed);
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(
      ran.err,
      "kubectl mgpu: Pod a: container \"app\" requests a part of the memory of a card without "
      "nvidia.com/gpucores; expected both, or a default in --hami-core\n");
}

TEST_F(ConvertCommand, ShowsHostileNamesHarmlessly) {
  const auto ran = convert(
      "{kind: Pod, metadata: {name: \"a\\e[31m\\u202e\"}, spec: {containers: [{name: app, "
      "resources: "
      "{limits: {nvidia.com/gpu: 1}}}]}}");
  EXPECT_EQ(ran.code, kubectl::kSucceeded);
  EXPECT_THAT(ran.err, HasSubstr("# Pod a\\u{1b}[31m\\u{202e}: container"));
}

TEST_F(ConvertCommand, NamesAFileThatItCannotRead) {
  const auto missing = run_convert({"-f", folder_.path() + "/missing.yaml"});
  EXPECT_EQ(missing.code, kubectl::kFoundOrFailed);
  EXPECT_THAT(missing.err, HasSubstr("missing.yaml"));
  const auto broken = convert("a: [");
  EXPECT_EQ(broken.code, kubectl::kFoundOrFailed);
  EXPECT_THAT(broken.err, HasSubstr("pod.yaml\": not YAML: line 1: "));
}

TEST_F(ConvertCommand, RefusesWrongFlags) {
  for (const auto& [flags, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "--filename is empty; expected a file, or - for standard input"},
           {{"-f", "a", "--resource-domain", "GPUs"}, "--resource-domain"},
           {{"-f", "a", "--hami-core", "101"}, "--hami-core"},
           {{"-f", "a", "--aliyun-memory-unit", "GB"}, "--aliyun-memory-unit"}}) {
    const auto ran = run_convert(flags);
    EXPECT_EQ(ran.code, kubectl::kUsage);
    EXPECT_THAT(ran.err, HasSubstr(why));
  }
}

}  // namespace
}  // namespace mgpu::test
