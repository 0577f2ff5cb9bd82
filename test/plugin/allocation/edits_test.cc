#include "plugin/allocation/edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::plugin {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

Record bound() {
  Record record;
  const std::vector<std::string> ids = {"c0", "c1", "c2", "c3"};
  record.devices = DeviceSet::of(ids).value();
  record.id = allocation_id(record.devices, "aa");
  record.owner = Owner{{"a", "x"}, PodUid("u"), "app"};
  record.cards = {{CardIndex(0), CardUuid("GPU-a"), {Percent(2), MiB(512)}},
                  {CardIndex(2), CardUuid("GPU-c"), {Percent(2), MiB(512)}}};
  return record;
}

TEST(Edits, DescribeTheContainersShareInTheEnvironment) {
  const Record record = bound();
  EXPECT_THAT(container_edits(record, {}).environment,
              UnorderedElementsAre(
                  Pair("MGPU_ALLOCATION", record.id.str()),
                  Pair("MGPU_DEVICES_HASH", record.devices.hash()), Pair("MGPU_CARDS", "0,2"),
                  Pair("MGPU_CARD_UUIDS", "GPU-a,GPU-c"), Pair("MGPU_CORE_PERCENT", "4"),
                  Pair("MGPU_MEMORY_MIB", "1024"), Pair("NVIDIA_VISIBLE_DEVICES", "void")));
}

TEST(Edits, HaveTheNodesOfTheCards) {
  const DeviceNode node{"/dev/nvidia0", "/dev/nvidia0"};
  EXPECT_THAT(container_edits(bound(), {node}).devices, ElementsAre(node));
}

// NVIDIA's runtime adds no cards for "void". Without it, the value "all" of an image would apply.
TEST(Edits, OfAllocateDisableOtherRuntimes) {
  EXPECT_THAT(environment_of(bound()), testing::Contains(Pair("NVIDIA_VISIBLE_DEVICES", "void")));
}

TEST(Edits, CdiNameHasTheDomainAndTheAllocation) {
  const auto contract = Contract::for_domain("gpu.example.com").value();
  EXPECT_EQ(cdi_name(contract, bound().id), "gpu.example.com/mgpu=" + bound().id.str());
}

}  // namespace
}  // namespace mgpu::plugin
