#include "plugin/node/other_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::plugin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// containerd with its defaults, and no software of NVIDIA.
AccessFacts plain() {
  AccessFacts facts;
  facts.default_handler = "runc";
  return facts;
}

AccessFacts with_handler(const std::string& default_handler, ToolkitSettings toolkit) {
  AccessFacts facts = plain();
  facts.default_handler = default_handler;
  facts.nvidia_handlers = {"nvidia", "nvidia-cdi"};
  facts.toolkit = toolkit;
  return facts;
}

AccessFacts with_capacity(const kube::StringMap& capacity) {
  AccessFacts facts = plain();
  facts.capacity = capacity;
  return facts;
}

std::vector<std::string> reasons(const AccessFacts& facts) {
  std::vector<std::string> reasons;
  for (const OtherAccess& one : access_report(facts).found) reasons.push_back(one.reason);
  return reasons;
}

constexpr ToolkitSettings kDefaults{};
constexpr ToolkitSettings kNothing{.by_environment = false, .by_mounts = false};
constexpr ToolkitSettings kMounts{.by_environment = false, .by_mounts = true};

TEST(OtherAccess, IsNotThereByDefault) {
  EXPECT_THAT(reasons(plain()), IsEmpty());
}

TEST(OtherAccess, DependsOnTheRuntimeAndTheSettingsOfTheToolkit) {
  struct Case {
    const char* default_handler;
    ToolkitSettings toolkit;
    std::vector<std::string> reasons;
  };
  const Case cases[] = {
      {"nvidia", kDefaults, {"DefaultRuntime"}},
      {"nvidia-cdi", kDefaults, {"DefaultRuntime"}},
      {"nvidia", kNothing, {}},
      {"nvidia", kMounts, {"VolumeMounts"}},
      {"nvidia", {.by_environment = true, .by_mounts = true}, {"DefaultRuntime", "VolumeMounts"}},
      {"runc", kDefaults, {"RuntimeClass"}},
      {"runc", kNothing, {}},
      {"runc", kMounts, {"VolumeMounts"}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(reasons(with_handler(one.default_handler, one.toolkit)), one.reasons)
        << one.default_handler << " " << one.toolkit.by_environment << one.toolkit.by_mounts;
  }
}

// Without the runtime nobody reads them.
TEST(OtherAccess, NeedsARuntimeForTheSettingsOfTheToolkit) {
  AccessFacts facts = plain();
  facts.toolkit = {.by_environment = true, .by_mounts = true};
  EXPECT_THAT(reasons(facts), IsEmpty());
}

TEST(OtherAccess, IsADevicePluginThatOffersTheCards) {
  struct Case {
    kube::StringMap capacity;
    bool found;
  };
  const Case cases[] = {
      {{{"nvidia.com/gpu", "8"}}, true},
      {{{"nvidia.com/gpu", "0"}}, false},
      {{{"nvidia.com/gpu", "many"}}, true},
      {{{"nvidia.com/gpu.shared", "32"}}, true},
      {{{"nvidia.com/mig-1g.5gb", "7"}}, true},
      {{{"nvidia.com/mig-1g.5gb", "0"}, {"nvidia.com/gpu", "0"}}, false},
      {{{"nvidia.com/hostdev", "4"}}, false},
      {{{"cpu", "96"}, {"vke.volcengine.com/mgpu-core", "800"}}, false},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(!reasons(with_capacity(one.capacity)).empty(), one.found)
        << one.capacity.begin()->first << "=" << one.capacity.begin()->second;
  }
  EXPECT_THAT(reasons(with_capacity({{"nvidia.com/gpu", "8"}})), ElementsAre("NvidiaDevicePlugin"));
}

TEST(OtherAccess, OfWholeCardsKeepsThemFromBeingOffered) {
  EXPECT_EQ(given_by_another({{"nvidia.com/gpu", "8"}, {"nvidia.com/gpu.shared", "32"}}),
            "another device plugin gives it out as nvidia.com/gpu; remove that from the node");
  EXPECT_EQ(given_by_another({{"nvidia.com/gpu", "0"}, {"nvidia.com/mig-1g.5gb", "7"}}), "");
}

// Its pods may outlive it on the node.
TEST(OtherAccess, OfAPodKeepsCardsFromBeingOfferedWhileItRuns) {
  const auto with = [](const char* name, const char* amount, const char* phase = "Running") {
    kube::Pod pod;
    pod.phase = phase;
    pod.containers.resize(2);
    pod.containers[1].limits = {{name, amount}};
    return pod;
  };
  kube::Pod init = with("cpu", "1");
  init.init_containers = with("nvidia.com/gpu", "1").containers;
  for (const kube::Pod& pod : {with("nvidia.com/gpu", "1"), init}) {
    EXPECT_EQ(given_by_another(std::vector{with("cpu", "1"), pod}),
              "a pod of the node has cards of another device plugin; delete the pod");
  }
  EXPECT_EQ(given_by_another(std::vector{
                with("nvidia.com/gpu", "1", "Succeeded"), with("nvidia.com/gpu", "1", "Pending"),
                with("nvidia.com/gpu", "0"), with("nvidia.com/mig-1g.5gb", "1")}),
            "");
}

TEST(OtherAccess, IsADriverOfDynamicResources) {
  AccessFacts facts = plain();
  facts.has_resource_slice = true;
  EXPECT_THAT(reasons(facts), ElementsAre("NvidiaDRADriver"));
}

TEST(OtherAccess, SaysWhatToChange) {
  AccessFacts facts = with_handler("nvidia", {.by_environment = true, .by_mounts = true});
  facts.capacity = {{"nvidia.com/gpu", "8"}, {"nvidia.com/mig-1g.5gb", "7"}};
  facts.has_resource_slice = true;
  const auto found = access_report(facts).found;
  ASSERT_EQ(found.size(), 4U);
  EXPECT_THAT(found[0].message,
              HasSubstr("set accept-nvidia-visible-devices-envvar-when-unprivileged = false"));
  EXPECT_THAT(found[1].message,
              HasSubstr("set accept-nvidia-visible-devices-as-volume-mounts = false"));
  EXPECT_THAT(found[2].message, HasSubstr("the node has nvidia.com/gpu, nvidia.com/mig-1g.5gb"));
  EXPECT_THAT(found[3].message, HasSubstr("a ResourceSlice of gpu.nvidia.com"));
  for (const OtherAccess& one : found) {
    EXPECT_THAT(other_access_reasons(), testing::Contains(one.reason));
  }
}

TEST(OtherAccess, IsToldByACondition) {
  AccessFacts facts = plain();
  EXPECT_EQ(exclusive_condition(access_report(facts)),
            (kube::Condition{"MGPUCardsExclusive", "True", "OnlyMGPU",
                             "no other way to the cards of this node was found"}));
  facts.problems = {"the runtime does not answer", "the API server does not answer"};
  EXPECT_EQ(exclusive_condition(access_report(facts)),
            (kube::Condition{"MGPUCardsExclusive", "Unknown", "NotChecked",
                             "the runtime does not answer; the API server does not answer"}));
  facts.has_resource_slice = true;
  const kube::Condition found = exclusive_condition(access_report(facts));
  EXPECT_EQ(found.status, "False") << "what is unknown does not hide what is found";
  EXPECT_EQ(found.reason, "NvidiaDRADriver");
  EXPECT_THAT(found.message, HasSubstr("remove the driver from the node"));
}

}  // namespace
}  // namespace mgpu::plugin
