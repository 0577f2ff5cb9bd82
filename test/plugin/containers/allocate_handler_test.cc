#include "plugin/containers/allocate_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/base/log.h"
#include "plugin/allocation/limits.h"
#include "plugin/state/records.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/scripted_parts.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using test::device_ids;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class AllocateHandlerTest : public testing::Test {
 public:
  AllocateHandlerTest() { EXPECT_TRUE(set_log_level("off")); }

  std::vector<Record> on_disk() const {
    Records records(folder_.path("allocations"));
    EXPECT_TRUE(records.load());
    return records.all();
  }

  test::ScratchFolder folder_;
  test::RecordingInjector injector_;
  Records records_{folder_.path("allocations")};
  int nonces_ = 0;
  AllocateHandler handler_{records_, injector_, [this] { return "n" + std::to_string(++nonces_); }};
};

TEST_F(AllocateHandlerTest, ReturnsAnAllocationOfTheDevices) {
  const auto answer = handler_.allocate(device_ids(30));
  ASSERT_TRUE(answer) << answer.error().message;
  const auto id = allocation_id(DeviceSet::of(device_ids(30)).value(), "n1");
  EXPECT_THAT(answer->cdi_devices, ElementsAre("recorded=" + id.str()));
  EXPECT_EQ(answer->environment.at("MGPU_ALLOCATION"), id.str());
  EXPECT_EQ(answer->environment.at("MGPU_CORE_PERCENT"), "30");
}

TEST_F(AllocateHandlerTest, SavesTheAllocationWithoutAnOwner) {
  ASSERT_TRUE(handler_.allocate(device_ids(30)));
  ASSERT_THAT(records_.all(), SizeIs(1));
  EXPECT_FALSE(records_.all()[0].bound());
  EXPECT_EQ(on_disk(), records_.all());
}

TEST_F(AllocateHandlerTest, TheSameDevicesMakeANewAllocation) {
  ASSERT_TRUE(handler_.allocate(device_ids(30)));
  ASSERT_TRUE(handler_.allocate(device_ids(30)));
  EXPECT_THAT(records_.all(), SizeIs(2));
}

TEST_F(AllocateHandlerTest, InjectsNothing) {
  ASSERT_TRUE(handler_.allocate(device_ids(30)));
  EXPECT_THAT(injector_.injected(), testing::IsEmpty());
}

TEST_F(AllocateHandlerTest, SucceedsWithoutTheDisk) {
  std::ofstream(folder_.path("allocations")) << "in the way";
  EXPECT_TRUE(handler_.allocate(device_ids(30)));
  EXPECT_THAT(records_.all(), SizeIs(1));
}

TEST_F(AllocateHandlerTest, RefusesInvalidIds) {
  using Ids = std::vector<std::string>;
  const auto many = device_ids(static_cast<std::int64_t>(kDevicesPerRequestMax) + 1);
  for (const Ids& ids : {Ids{}, Ids{""}, Ids{std::string(64, 'x')}, many}) {
    EXPECT_FALSE(handler_.allocate(ids));
  }
  EXPECT_THAT(records_.all(), testing::IsEmpty());
}

TEST_F(AllocateHandlerTest, RefusesTooManyAllocations) {
  for (std::size_t n = 0; n < kRecordsMax; ++n) {
    ASSERT_TRUE(records_.keep(test::allocated(device_ids(1), "k" + std::to_string(n))));
  }
  EXPECT_THAT(handler_.allocate(device_ids(30)).error().message,
              HasSubstr("there are 10000 allocations already"));
}

}  // namespace
}  // namespace mgpu::plugin
