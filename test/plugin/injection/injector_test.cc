#include "plugin/injection/injector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {
using testing::HasSubstr;

const Contract& contract() {
  static const Contract value = Contract::for_domain(kDefaultResourceDomain).value();
  return value;
}

Record record(const char* id, const char* nonce) {
  Record record;
  record.devices = DeviceSet::of(std::vector<std::string>{id}).value();
  record.id = allocation_id(record.devices, nonce);
  return record;
}

Edits edits(const std::string& card) {
  Edits edits;
  edits.devices = {{"/dev/nvidia0", "/dev/null"}};
  edits.environment = {{"MGPU_CARDS", card}};
  return edits;
}

nlohmann::json spec(const test::ScratchFolder& folder) {
  std::ifstream file(folder.path("vke.volcengine.com-mgpu.json"));
  return nlohmann::json::parse(file, nullptr, false);
}

TEST(CdiInjector, AllocateNamesADeviceOfTheAllocation) {
  const test::ScratchFolder folder;
  const auto one = record("c0", "aa");
  const auto response = cdi_injector(contract(), folder.path())->allocate_response(one);
  EXPECT_THAT(response.cdi_devices,
              testing::ElementsAre("vke.volcengine.com/mgpu=" + one.id.str()));
  EXPECT_EQ(response.edits.environment.at("NVIDIA_VISIBLE_DEVICES"), "void");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is written before PreStart";
}

TEST(CdiInjector, WritesAValidSpec) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  Edits shared;
  shared.devices = {{"/dev/nvidiactl", "/dev/nvidiactl"}};
  shared.mounts = {{"/usr/lib/x.so", "/usr/lib/x.so", true}};
  injector->set_shared(shared, shared);
  const auto id = record("c0", "aa").id;
  ASSERT_TRUE(injector->inject(id, edits("3")).value());
  const auto expected = nlohmann::json::parse(R"({
    "cdiVersion": "0.5.0", "kind": "vke.volcengine.com/mgpu",
    "devices": [{"name": ")" + id.str() + R"(", "containerEdits": {
      "env": ["MGPU_CARDS=3"],
      "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null", "permissions": "rw"}]}}],
    "containerEdits": {
      "deviceNodes": [{"path": "/dev/nvidiactl", "hostPath": "/dev/nvidiactl",
                       "permissions": "rw"}],
      "mounts": [{"hostPath": "/usr/lib/x.so", "containerPath": "/usr/lib/x.so",
                  "options": ["ro", "nosuid", "nodev", "rbind"]}]}})");
  EXPECT_EQ(spec(folder), expected);
}

TEST(CdiInjector, AMountMayForbidToRunPrograms) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  Edits of_mps;
  of_mps.mounts = {{.host_path = "/run/a", .container_path = "/a", .no_exec = true}};
  ASSERT_TRUE(injector->inject(record("c0", "aa").id, of_mps).value());
  EXPECT_EQ(spec(folder)["devices"][0]["containerEdits"]["mounts"][0]["options"],
            nlohmann::json({"ro", "nosuid", "nodev", "noexec", "rbind"}));
}

TEST(CdiInjector, WritesHooks) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  Edits shared;
  shared.hooks = {{.name = "createContainer",
                   .path = "/usr/bin/hook",
                   .arguments = {"hook", "update-ldcache"},
                   .environment = {"DEBUG=false"}},
                  {.name = "poststop", .path = "/usr/bin/end", .arguments = {}, .environment = {}}};
  injector->set_shared(shared, shared);
  ASSERT_TRUE(injector->inject(record("c0", "aa").id, edits("3")).value());
  EXPECT_EQ(spec(folder)["containerEdits"], nlohmann::json::parse(R"({"hooks": [
    {"hookName": "createContainer", "path": "/usr/bin/hook", "args": ["hook", "update-ldcache"],
     "env": ["DEBUG=false"]},
    {"hookName": "poststop", "path": "/usr/bin/end"}]})"));
}

TEST(CdiInjector, WritesTheHooksOfAContainer) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  const auto id = record("c0", "aa").id;
  Edits limited;
  limited.hooks = {{.name = "createRuntime",
                    .path = "/var/lib/mgpu/mgpu-set-limits",
                    .arguments = {"mgpu-set-limits", "/run/mgpu/limits.sock", id.str()},
                    .environment = {},
                    .timeout_seconds = 15}};
  ASSERT_TRUE(injector->inject(id, limited).value());
  const auto expected = nlohmann::json::parse(R"([{
    "hookName": "createRuntime", "path": "/var/lib/mgpu/mgpu-set-limits", "timeout": 15,
    "args": ["mgpu-set-limits", "/run/mgpu/limits.sock", ")" +
                                              id.str() + R"("]}])");
  EXPECT_EQ(spec(folder)["devices"][0]["containerEdits"]["hooks"], expected);
}

TEST(NodeInjector, RefusesAHookThatEnforcesTheShare) {
  const test::ScratchFolder folder;
  Edits limited;
  limited.hooks = {{.name = "createRuntime",
                    .path = "/var/lib/mgpu/mgpu-set-limits",
                    .arguments = {},
                    .environment = {}}};
  const auto refused = node_injector(folder.path())->inject(record("c0", "aa").id, limited);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("cannot run /var/lib/mgpu/mgpu-set-limits, which enforces the share"));
}

TEST(CdiInjector, WritesOnlyChanges) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  const auto id = record("c0", "aa").id;
  EXPECT_TRUE(injector->inject(id, edits("3")).value());
  EXPECT_FALSE(injector->inject(id, edits("3")).value()) << "a restart changes nothing";
  std::filesystem::remove(folder.path("vke.volcengine.com-mgpu.json"));
  EXPECT_TRUE(injector->inject(id, edits("3")).value()) << "the file was removed";
}

// As by a process that has been replaced and does not know it yet.
TEST(CdiInjector, WritesWhatAnotherProcessHasOverwritten) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  const auto other = cdi_injector(contract(), folder.path());
  const auto id = record("c0", "aa").id;
  ASSERT_TRUE(injector->inject(id, edits("3")).value());
  ASSERT_TRUE(other->inject(record("c1", "bb").id, edits("1")).value());
  ASSERT_EQ(spec(folder)["devices"][0]["name"], record("c1", "bb").id.str());
  EXPECT_TRUE(injector->inject(id, edits("3")).value());
  EXPECT_EQ(spec(folder)["devices"][0]["name"], id.str());
  std::filesystem::resize_file(folder.path("vke.volcengine.com-mgpu.json"), 40);
  EXPECT_TRUE(injector->inject(id, edits("3")).value()) << "half a file";
  EXPECT_EQ(spec(folder)["devices"].size(), 1U);
}

TEST(CdiInjector, KeepsTheEditsOfAnEarlierProcess) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  injector->restore(record("c0", "aa").id, edits("0"));
  ASSERT_TRUE(injector->inject(record("c1", "bb").id, edits("1")));
  EXPECT_EQ(spec(folder)["devices"].size(), 2U);
  injector->remove(record("c0", "aa").id);
  EXPECT_EQ(spec(folder)["devices"].size(), 1U);
}

TEST(CdiInjector, ReportsThatItCannotWrite) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("file")) << "";
  const auto injector = cdi_injector(contract(), folder.path("file"));
  EXPECT_THAT(injector->inject(record("c0", "aa").id, edits("3")).error().message,
              HasSubstr("cannot create " + folder.path("file")));
}

TEST(NodeInjector, AllocateNamesAFolderThatDoesNotExistYet) {
  const test::ScratchFolder folder;
  const auto one = record("c0", "aa");
  const auto response = node_injector(folder.path())->allocate_response(one);
  ASSERT_EQ(response.edits.devices.size(), 1U);
  EXPECT_EQ(response.edits.devices[0].path, "/dev");
  EXPECT_EQ(response.edits.devices[0].host_path,
            folder.path("allocations/" + one.id.str() + "/dev"));
  EXPECT_FALSE(std::filesystem::exists(response.edits.devices[0].host_path));
}

TEST(NodeInjector, CreatesTheNodesOfTheCardsAndNoOthers) {
  const test::ScratchFolder folder;
  const auto injector = node_injector(folder.path());
  const auto one = record("c0", "aa");
  if (mknod(folder.path("probe").c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "creating device nodes needs root";
  }
  Edits two = edits("0");
  two.devices.push_back({"/dev/nvidia1", "/dev/zero"});
  ASSERT_TRUE(injector->inject(one.id, two));
  ASSERT_TRUE(injector->inject(one.id, edits("0")));
  const std::string nodes = folder.path("allocations/" + one.id.str() + "/dev");
  struct stat node {};
  ASSERT_EQ(stat((nodes + "/nvidia0").c_str(), &node), 0);
  EXPECT_TRUE(S_ISCHR(node.st_mode));
  EXPECT_EQ(node.st_rdev, makedev(1, 3));
  EXPECT_EQ(node.st_mode & 0777, 0666U);
  EXPECT_FALSE(std::filesystem::exists(nodes + "/nvidia1"));
  injector->remove(one.id);
  EXPECT_FALSE(std::filesystem::exists(nodes));
}

TEST(NodeInjector, AllocateMountsTheFilesOfTheDriver) {
  const test::ScratchFolder folder;
  const auto injector = node_injector(folder.path());
  Edits shared;
  shared.mounts = {{"/usr/lib64/libcuda.so.580.95.05", "/usr/lib64/libcuda.so.1", true}};
  injector->set_shared(shared, shared);
  EXPECT_EQ(injector->allocate_response(record("c0", "aa")).edits.mounts, shared.mounts);
}

TEST(NodeInjector, FindsDevicesBelowTheNodeRoot) {
  const test::ScratchFolder folder;
  std::filesystem::create_directories(folder.path("node/dev"));
  if (mknod(folder.path("node/dev/nvidia0").c_str(), S_IFCHR | 0600, makedev(1, 5)) != 0) {
    GTEST_SKIP() << "creating device nodes needs root";
  }
  const auto one = record("c0", "aa");
  Edits edits;
  edits.devices = {{"/dev/nvidia0", "/dev/nvidia0"}};
  ASSERT_TRUE(node_injector(folder.path("run"), folder.path("node"))->inject(one.id, edits));
  struct stat node {};
  const std::string made = folder.path("run/allocations/" + one.id.str() + "/dev/nvidia0");
  ASSERT_EQ(stat(made.c_str(), &node), 0);
  EXPECT_EQ(node.st_rdev, makedev(1, 5));
}

TEST(NodeInjector, RefusesMountsThatEnforceAShare) {
  const test::ScratchFolder folder;
  Edits limited;
  limited.mounts = {{"/run/mgpu/mps/GPU-0/pipe", "/tmp/nvidia-mps", false}};
  EXPECT_THAT(node_injector(folder.path())->inject(record("c0", "aa").id, limited).error().message,
              HasSubstr("cannot mount /tmp/nvidia-mps, which enforces the share"));
}

TEST(NodeInjector, RefusesOtherFilesAndPathsOutsideDev) {
  const test::ScratchFolder folder;
  const auto injector = node_injector(folder.path());
  Edits wrong;
  wrong.devices = {{"/dev/nvidia0", folder.path()}};
  EXPECT_THAT(injector->inject(record("c0", "aa").id, wrong).error().message,
              HasSubstr("is not a character device"));
  wrong.devices = {{"/opt/nvidia0", "/dev/null"}};
  EXPECT_THAT(injector->inject(record("c0", "aa").id, wrong).error().message,
              HasSubstr("is not directly under /dev"));
}

// --- a node whose runtime changes ----------------------------------------------------------------

class InjectorOfKindsTest : public testing::Test {
 public:
  std::unique_ptr<Injector> node_with(InjectionKind kind) const {
    return injector_of_kinds(kind, cdi_injector(contract(), folder_.path()),
                             node_injector(folder_.path()));
  }
  static Record allocated_with(InjectionKind kind) {
    return record("c0", nonce_of(kind, "aa").c_str());
  }
  bool has_cdi_device(const Record& one) const {
    return spec(folder_).dump().find("\"" + one.id.str() + "\"") != std::string::npos;
  }
  bool has_folder(const Record& one) const {
    return std::filesystem::exists(folder_.path("allocations/" + one.id.str() + "/dev"));
  }

  const test::ScratchFolder folder_;
};

TEST_F(InjectorOfKindsTest, AllocatesInTheWayOfTheNode) {
  const auto one = record("c0", "aa");
  EXPECT_THAT(node_with(InjectionKind::kCdi)->allocate_response(one).cdi_devices,
              testing::SizeIs(1));
  EXPECT_THAT(node_with(InjectionKind::kDeviceNodes)->allocate_response(one).edits.devices,
              testing::SizeIs(1));
  EXPECT_EQ(node_with(InjectionKind::kCdi)->name(), "cdi");
}

TEST_F(InjectorOfKindsTest, AnIdSaysHowItWasAllocated) {
  for (const InjectionKind kind : {InjectionKind::kCdi, InjectionKind::kDeviceNodes}) {
    EXPECT_TRUE(valid(allocated_with(kind).id));
    EXPECT_EQ(kind_of(allocated_with(kind).id), kind);
  }
  EXPECT_EQ(kind_of(record("c0", "aa").id), std::nullopt);
}

// containerd 1.7 becomes 2, and kubelet still passes the folder that Allocate named.
TEST_F(InjectorOfKindsTest, MakesDeviceNodesForAnEarlierAllocationOnANodeWithCdi) {
  const auto one = allocated_with(InjectionKind::kDeviceNodes);
  const auto injector = node_with(InjectionKind::kCdi);
  ASSERT_TRUE(injector->inject(one.id, {}));
  EXPECT_TRUE(has_folder(one));
  EXPECT_FALSE(has_cdi_device(one));
  injector->remove(one.id);
  EXPECT_FALSE(has_folder(one));
}

// Hooks and devices of the toolkit's CDI spec are for containers with a CDI device.
TEST_F(InjectorOfKindsTest, GivesEachKindItsSharedEdits) {
  Edits shared;
  shared.devices = {{"/dev/nvidiactl", "/dev/null"}};
  Edits with_hooks;
  with_hooks.devices = {{"/dev/nvidia-caps-imex-channels/channel0", "/dev/null"}};
  const auto injector = node_with(InjectionKind::kCdi);
  injector->set_shared(shared, with_hooks);
  const auto one = allocated_with(InjectionKind::kDeviceNodes);
  ASSERT_TRUE(injector->inject(one.id, {}));
  EXPECT_TRUE(
      std::filesystem::exists(folder_.path("allocations/" + one.id.str() + "/dev/nvidiactl")));
  ASSERT_TRUE(injector->inject(allocated_with(InjectionKind::kCdi).id, {}));
  EXPECT_THAT(spec(folder_).dump(), HasSubstr("imex"));
}

TEST_F(InjectorOfKindsTest, RefusesACdiDeviceWhereTheRuntimeHasNoCdiAnyMore) {
  const auto one = allocated_with(InjectionKind::kCdi);
  EXPECT_THAT(node_with(InjectionKind::kDeviceNodes)->inject(one.id, {}).error().message,
              HasSubstr("does not support CDI any more; delete the pod"));
  ASSERT_TRUE(node_with(InjectionKind::kCdi)->inject(one.id, {}));
  EXPECT_TRUE(has_cdi_device(one));
}

// The node gets CDI and MPS at the same time, and the container starts again.
TEST_F(InjectorOfKindsTest, RemovesTheDeviceNodesOfAnAllocationThatMustBeLimited) {
  const auto one = record("c0", "aa");
  const auto injector = node_with(InjectionKind::kCdi);
  ASSERT_TRUE(injector->inject(one.id, {}));
  ASSERT_TRUE(has_folder(one));
  Edits limited;
  limited.mounts = {{"/run/mgpu/mps/GPU-a/pipe", "/run/mgpu/mps", true}};
  ASSERT_TRUE(injector->inject(one.id, limited));
  EXPECT_FALSE(has_folder(one)) << "it would start without its limit";
}

TEST_F(InjectorOfKindsTest, InjectsAnAllocationOfAnEarlierVersionInBothWays) {
  const auto one = record("c0", "aa");
  for (const InjectionKind kind : {InjectionKind::kCdi, InjectionKind::kDeviceNodes}) {
    const auto injector = node_with(kind);
    ASSERT_TRUE(injector->inject(one.id, {}));
    EXPECT_TRUE(has_folder(one));
    EXPECT_TRUE(has_cdi_device(one));
    injector->remove(one.id);
    EXPECT_FALSE(has_folder(one));
    EXPECT_FALSE(has_cdi_device(one));
  }
}

}  // namespace
}  // namespace mgpu::plugin
