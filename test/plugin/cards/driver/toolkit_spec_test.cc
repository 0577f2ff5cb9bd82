#include "plugin/cards/driver/toolkit_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/log.h"
#include "plugin/cards/card_source.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/nvml/nvml_source.h"
#include "test/plugin/cards/recorded_layout.h"

namespace mgpu::plugin {
namespace {
using testing::Contains;
using testing::HasSubstr;

const std::string kRecordedSpecs = MGPU_SOURCE_DIR "/test/golden/nvidia-ctk-1.20.1";
const std::string kHookProgram = "/usr/bin/nvidia-cdi-hook";
const std::string kSpecFile = "/var/run/cdi/nvidia.yaml";

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

constexpr char kSmall[] = R"(
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices: [{name: all, containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}}]
containerEdits:
  env: ["NVIDIA_VISIBLE_DEVICES=void", "EMPTY="]
  deviceNodes:
  - {path: /dev/nvidiactl, hostPath: /run/nvidia/driver/dev/nvidiactl, major: 195, permissions: rwm}
  - {path: /dev/nvidia-uvm}
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib64]
    env: [NVIDIA_CTK_DEBUG=false]
  mounts:
  - {hostPath: /usr/lib64/libcuda.so.580.95.05, containerPath: /usr/lib64/libcuda.so.580.95.05,
     options: [ro, nosuid]}
  - {hostPath: /run/socket, containerPath: /run/socket, options: [nosuid, noexec]}
  additionalGids: [44]
)";

// A node with the driver of test/gpu/nvml/nvml.cc and all that the spec names.
FakeDriver& with_spec(FakeDriver& node, const std::string& text = kSmall) {
  node.set_scenario("driver 580.95.05\ncard GPU-a\n");
  for (const char* path :
       {"/run/nvidia/driver/dev/nvidiactl", "/dev/nvidiactl", "/dev/nvidia-uvm",
        "/usr/bin/nvidia-cdi-hook", "/usr/lib64/libcuda.so.580.95.05", "/run/socket"}) {
    node.add_file(path);
  }
  node.add_file(kSpecFile, text);
  return node;
}

DriverPlace spec_place(const FakeDriver& node, const std::string& version = "580.95.05") {
  return {.node_root = node.root(), .version = version};
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string spec_problem(const std::string& text) {
  const auto edits = parse_toolkit_spec(text);
  return edits ? "" : edits.error().message;
}

// What the log says while `find` is called.
std::string logged(ToolkitSpecs& specs, const DriverPlace& place) {
  EXPECT_TRUE(set_log_level("info"));
  testing::internal::CaptureStderr();
  static_cast<void>(specs.find(place));
  return testing::internal::GetCapturedStderr();
}

TEST(ToolkitSpec, HasTheEditsForAllDevices) {
  const auto edits = parse_toolkit_spec(kSmall);
  ASSERT_TRUE(edits) << edits.error().message;
  const std::string libcuda = "/usr/lib64/libcuda.so.580.95.05";
  const Edits expected{
      .devices = {{"/dev/nvidiactl", "/run/nvidia/driver/dev/nvidiactl"},
                  {"/dev/nvidia-uvm", "/dev/nvidia-uvm"}},
      .mounts = {{libcuda, libcuda, true}, {"/run/socket", "/run/socket", false}},
      .environment = {{"NVIDIA_VISIBLE_DEVICES", "void"}, {"EMPTY", ""}},
      .hooks = {{.name = "createContainer",
                 .path = kHookProgram,
                 .arguments = {"nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64"},
                 .environment = {"NVIDIA_CTK_DEBUG=false"}}}};
  EXPECT_EQ(*edits, expected);
}

TEST(ToolkitSpec, IsReadAsNvidiaCtkHasWrittenIt) {
  for (const char* name : {"runfile", "debian", "gpu-operator", "bottlerocket", "talos"}) {
    const RecordedLayout layout(kRecordedSpecs, name);
    const auto edits = parse_toolkit_spec(text_of(layout.spec_file()));
    ASSERT_TRUE(edits) << name << ": " << edits.error().message;
    EXPECT_EQ(edits->devices, layout.nodes()) << name;
    EXPECT_EQ(edits->mounts.size(), layout.mounts().size()) << name;
    std::set<std::string> hooks;
    for (const Hook& hook : edits->hooks) hooks.insert(hook.arguments.at(1));
    EXPECT_EQ(hooks, layout.hooks()) << name;
    EXPECT_EQ(edits->environment.size(), layout.environment().size()) << name;
    layout.node().add_file(kHookProgram);
    EXPECT_EQ(why_not_usable(layout.place(), *edits), "") << name;
    EXPECT_EQ(missing_for_cuda(layout.place(), *edits), "") << name;
  }
}

TEST(ToolkitSpec, SaysWhatIsWrongWithIt) {
  const struct {
    std::string text, problem;
  } cases[] = {
      {"", "the file must be a map"},
      {"[]", "the file must be a map"},
      {"{a: ]", "not YAML: line 1: "},
      {std::string(10'000, '['), "line 1: is nested deeper than 64 levels"},
      {"cdiVersion: 0.5.0", "kind must be a text of 1 to 96 bytes, found nothing"},
      {"kind: nvidia.com/gpu", "containerEdits must be a map"},
      {changed("nvidia.com/gpu", "example.com/nic"),
       "kind must be nvidia.com/gpu, found \"example.com/nic\""},
      {changed("hostPath: /run/socket", "hostPath: run/socket"),
       "containerEdits.mounts[1].hostPath must be an absolute path without \"..\", found "
       "\"run/socket\""},
      {changed("hostPath: /run/socket", "hostPath: /run/../../socket"),
       "containerEdits.mounts[1].hostPath must be an absolute path"},
      {changed("containerPath: /run/socket, ", ""),
       "containerEdits.mounts[1].containerPath must be an absolute path, found nothing"},
      {changed("{path: /dev/nvidia-uvm}", "/dev/nvidia-uvm"),
       "containerEdits.deviceNodes[1] must be a map"},
      {changed("createContainer", "never"),
       "containerEdits.hooks[0].hookName must be one of prestart, "},
      {changed("EMPTY=", "EMPTY"),
       "containerEdits.env must have texts NAME=value, found \"EMPTY\""},
      {changed("[NVIDIA_CTK_DEBUG=false]", "[[]]"),
       "containerEdits.hooks[0].env[0] must be a text of at most 4096 bytes"},
      {changed("  mounts:", "  mounts: {}\n  other:"), "containerEdits.mounts must be a list"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(spec_problem(text), testing::StartsWith(problem)) << text;
  }
}

TEST(ToolkitSpec, ListsAreBounded) {
  std::string all = "EMPTY=";
  for (std::size_t i = 0; i < kToolkitListMax; ++i) all += "\", \"A=";
  EXPECT_THAT(spec_problem(changed("EMPTY=", all)),
              HasSubstr("containerEdits.env must have at most 1024 entries, found 1026"));
}

TEST(ToolkitSpec, IsOnlyUsableWithTheFilesThatItNames) {
  FakeDriver node;
  with_spec(node);
  const Edits edits = parse_toolkit_spec(kSmall).value();
  EXPECT_EQ(why_not_usable(spec_place(node), edits), "");
  for (const char* path : {"/run/socket", "/usr/bin/nvidia-cdi-hook",
                           "/usr/lib64/libcuda.so.580.95.05", "/dev/nvidia-uvm"}) {
    std::filesystem::remove(node.root() + path);
    EXPECT_EQ(why_not_usable(spec_place(node), edits), std::string("the node has no ") + path);
    node.add_file(path);
  }
}

TEST(ToolkitSpec, IsNotUsableForAnotherDriver) {
  FakeDriver node;
  const Edits edits = parse_toolkit_spec(kSmall).value();
  EXPECT_EQ(why_not_usable(spec_place(with_spec(node), "590.1"), edits),
            "libcuda.so.1 is of driver 580.95.05, the kernel module of 590.1");
  Edits none = edits;
  none.mounts.clear();
  EXPECT_EQ(why_not_usable(spec_place(node), none), "libcuda.so.1 is missing");
}

TEST(ToolkitSpecs, AreFoundInTheFoldersOfTheRuntime) {
  FakeDriver node;
  with_spec(node);
  const auto first = parse_toolkit_spec(kSmall).value();
  const std::string other = changed("EMPTY=", "OTHER=1");
  node.add_file("/etc/cdi/nvidia.json", other);
  ToolkitSpecs specs;
  EXPECT_EQ(specs.find(spec_place(node)), first);
  std::filesystem::remove(node.root() + kSpecFile);
  EXPECT_EQ(specs.find(spec_place(node)), parse_toolkit_spec(other).value());
  std::filesystem::remove(node.root() + "/etc/cdi/nvidia.json");
  EXPECT_EQ(specs.find(spec_place(node)), std::nullopt);
  node.add_file("/etc/cdi/nvidia.yaml", kSmall);
  EXPECT_EQ(specs.find(spec_place(node)), first);
}

TEST(ToolkitSpecs, AnUnusableOneIsSkipped) {
  FakeDriver node;
  with_spec(node, "[]");
  node.add_file("/etc/cdi/nvidia.yaml", kSmall);
  ToolkitSpecs specs;
  EXPECT_EQ(specs.find(spec_place(node)), parse_toolkit_spec(kSmall).value());
}

TEST(ToolkitSpecs, AreReadAgainWhenTheyChange) {
  FakeDriver node;
  with_spec(node, "[]");
  ToolkitSpecs specs;
  EXPECT_EQ(specs.find(spec_place(node)), std::nullopt);
  node.add_file(kSpecFile, kSmall);
  EXPECT_NE(specs.find(spec_place(node)), std::nullopt);
  node.add_file(kSpecFile, kSmall + std::string(kToolkitSpecBytesMax, ' '));
  EXPECT_EQ(specs.find(spec_place(node)), std::nullopt) << "too large";
}

TEST(ToolkitSpecs, MayHaveTheNameThatNixOSGivesThem) {
  FakeDriver node;
  with_spec(node);
  const std::string folder = node.root() + "/var/run/cdi/";
  std::filesystem::rename(node.root() + kSpecFile, folder + "nvidia-container-toolkit.json");
  ToolkitSpecs specs;
  EXPECT_EQ(specs.find(spec_place(node)), parse_toolkit_spec(kSmall).value());
}

TEST(ToolkitSpecs, LinksAreFollowedInTheRootOfTheNode) {
  FakeDriver node;
  with_spec(node);
  std::filesystem::rename(node.root() + kSpecFile, node.root() + "/opt-spec.yaml");
  std::filesystem::create_symlink("/opt-spec.yaml", node.root() + kSpecFile);
  ToolkitSpecs specs;
  EXPECT_EQ(specs.find(spec_place(node)), parse_toolkit_spec(kSmall).value());
}

// A spec that somebody has made for other programs does not replace that of NVIDIA's toolkit.
TEST(ToolkitSpecs, OfOtherNamesAreNotRead) {
  FakeDriver node;
  with_spec(node);
  std::filesystem::rename(node.root() + kSpecFile, node.root() + "/var/run/cdi/another.yaml");
  ToolkitSpecs specs;
  EXPECT_EQ(logged(specs, spec_place(node)), "");
  EXPECT_EQ(specs.find(spec_place(node)), std::nullopt);
}

TEST(ToolkitSpecs, TheLogSaysOnceWhichIsUsedAndWhyNot) {
  FakeDriver node;
  with_spec(node);
  ToolkitSpecs specs;
  EXPECT_THAT(logged(specs, spec_place(node)), HasSubstr("spec=" + kSpecFile));
  EXPECT_EQ(logged(specs, spec_place(node)), "");
  EXPECT_THAT(logged(specs, spec_place(node, "590.1")),
              HasSubstr("problem=\"libcuda.so.1 is of driver 580.95.05, the kernel module of "
                        "590.1\""));
  EXPECT_EQ(logged(specs, spec_place(node, "590.1")), "");
  node.add_file(kSpecFile, std::string(kToolkitSpecBytesMax + 1, ' '));
  EXPECT_THAT(logged(specs, spec_place(node)), HasSubstr("a CDI spec of NVIDIA's toolkit"));
  EXPECT_EQ(logged(specs, spec_place(node)), "");
}

TEST(ToolkitSpecs, NvmlSourceHasTheEditsAndAllControlNodes) {
  FakeDriver node;
  with_spec(node).add_file("/dev/nvidia-uvm-tools");
  const auto found = nvml_source(node.options())->read();
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_TRUE(found->toolkit);
  EXPECT_EQ(found->toolkit->hooks.size(), 1U);
  EXPECT_THAT(found->toolkit->devices,
              testing::ElementsAre(DeviceNode{"/dev/nvidiactl", "/run/nvidia/driver/dev/nvidiactl"},
                                   DeviceNode{"/dev/nvidia-uvm", "/dev/nvidia-uvm"},
                                   DeviceNode{"/dev/nvidia-uvm-tools", "/dev/nvidia-uvm-tools"}));
  EXPECT_THAT(found->shared.hooks, testing::IsEmpty());
  EXPECT_EQ(&shared_edits(*found), &*found->toolkit);
}

TEST(ToolkitSpecs, OffersCardsOfADriverThatOnlyTheSpecFinds) {
  FakeDriver node;
  const std::string odd = "/nix/store/driver/lib/libcuda.so.580.95.05";
  with_spec(node, changed("hostPath: /usr/lib64/libcuda.so.580.95.05", "hostPath: " + odd));
  std::filesystem::remove(node.root() + "/usr/lib64/libcuda.so.580.95.05");
  const auto without = nvml_source(node.options())->read();
  ASSERT_TRUE(without);
  EXPECT_EQ(without->cards.at(0).health, "libcuda.so.1 is missing");
  node.add_file(odd);
  const auto with = nvml_source(node.options())->read();
  ASSERT_TRUE(with);
  EXPECT_EQ(with->cards.at(0).health, kHealthy);
}

TEST(ToolkitSpecs, AreNotReadForAGivenRoot) {
  FakeDriver node;
  with_spec(node);
  NvmlOptions given = node.options();
  given.driver_root = "/";
  EXPECT_EQ(nvml_source(given)->read()->toolkit, std::nullopt);
}

}  // namespace
}  // namespace mgpu::plugin
