#include "plugin/injection/injector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(response.environment.at("NVIDIA_VISIBLE_DEVICES"), "void");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing is written before PreStart";
}

TEST(CdiInjector, WritesAValidSpec) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  Edits shared;
  shared.devices = {{"/dev/nvidiactl", "/dev/nvidiactl"}};
  shared.mounts = {{"/usr/lib/x.so", "/usr/lib/x.so", true}};
  injector->set_shared(shared);
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
  injector->set_shared(shared);
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

// The file has its edits from before, which runtimes read when the container restarts.
TEST(CdiInjector, KeepsTheEditsOfAContainerWhenItCannotWrite) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path("cdi"));
  const auto first = record("c0", "aa").id;
  ASSERT_TRUE(injector->inject(first, edits("0")));
  std::filesystem::rename(folder.path("cdi"), folder.path("away"));
  std::ofstream(folder.path("cdi")) << "a file";
  EXPECT_FALSE(injector->inject(first, edits("0")));
  std::filesystem::remove(folder.path("cdi"));
  ASSERT_TRUE(injector->inject(record("c1", "bb").id, edits("1")));
  std::ifstream file(folder.path("cdi/vke.volcengine.com-mgpu.json"));
  EXPECT_EQ(nlohmann::json::parse(file)["devices"].size(), 2u);
}

TEST(CdiInjector, ReportsThatItCannotWrite) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("file")) << "";
  const auto injector = cdi_injector(contract(), folder.path("file"));
  EXPECT_THAT(injector->inject(record("c0", "aa").id, edits("3")).error().message,
              HasSubstr("cannot create " + folder.path("file")));
}

// Of an earlier version: kubelet passes a folder to the runtime, and no CDI device.
TEST(CdiInjector, RefusesAContainerThatWasGivenDeviceNodes) {
  const test::ScratchFolder folder;
  const auto injector = cdi_injector(contract(), folder.path());
  EXPECT_THAT(injector->inject(record("c0", "aa0").id, edits("3")).error().message,
              HasSubstr("device nodes without CDI, and it cannot start again with them; delete the "
                        "pod so that it is created again"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_TRUE(injector->inject(record("c0", "aa1").id, edits("3")).value()) << "with CDI";
}

}  // namespace
}  // namespace mgpu::plugin
