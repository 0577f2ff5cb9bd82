// Arrays, and memory of graphs. All of this is measured on an H200 with driver 580.159.04.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

using testing::ElementsAre;

constexpr int kFloat = 0x20;
constexpr int kByte = 1;

struct Shape {
  std::size_t width;
  std::size_t height;
  std::size_t depth;
  int format;
  unsigned channels;
  unsigned flags;
};

// Sizes that were measured, in MiB.
TEST_F(DriverTest, ArraysTakeWholeTiles) {
  in_process([] {
    const Driver driver;
    const std::pair<Shape, double> cases[] = {
        {{1000, 1000, 0, kFloat, 1, 0}, 4},
        {{100, 100, 100, kFloat, 1, 0}, 6},
        {{1, 1, 0, kByte, 1, 0}, 2},
        {{4097, 4097, 0, kFloat, 4, 0}, 266},
    };
    for (const auto& [shape, mib] : cases) {
      Handle array = nullptr;
      EXPECT_EQ(taken(driver, [&] { driver.call("cuArray3DCreate_v2", &array, &shape); }), mib);
      EXPECT_EQ(driver.call("cuArrayGetMemoryRequirements", Handle{}, array, 0), kInvalidValue);
      EXPECT_EQ(taken(driver, [&] { driver.call("cuArrayDestroy", array); }), -mib);
    }
    const auto create = [&](int count, const Shape& shape) {
      return taken(driver, [&] {
        Handle array = nullptr;
        for (int i = 0; i < count; ++i) driver.call("cuArray3DCreate_v2", &array, &shape);
      });
    };
    EXPECT_EQ(create(200, {100, 0, 0, kFloat, 1, 0}), 2) << "small ones share pages";
    EXPECT_EQ(create(100, {100'000, 0, 0, kFloat, 1, 0}), 400);
    Handle array = nullptr;
    Handle level = nullptr;
    const Shape shape{1024, 1024, 0, kFloat, 1, 0};
    EXPECT_EQ(taken(driver, [&] { driver.call("cuMipmappedArrayCreate", &array, &shape, 11U); }),
              6);
    EXPECT_EQ(driver.call("cuMipmappedArrayGetLevel", &level, array, 10U), kSuccess);
    Shape last{};
    EXPECT_EQ(driver.call("cuArray3DGetDescriptor_v2", &last, level), kSuccess);
    EXPECT_EQ(last.width, 1U);
    EXPECT_EQ(driver.call("cuMipmappedArrayDestroy", array), kSuccess);
  });
}

struct TakeParameters {
  int allocation_type = 1;
  int handle_types = 0;
  int location_type = 1;
  int location = 0;
  unsigned char other[72] = {};
  const void* access = nullptr;
  std::size_t access_count = 0;
  std::size_t bytes = 0;
  Pointer pointer = 0;
};

struct Graphs {
  const Driver driver{};

  // A graph that allocates, and frees unless `leaves`.
  Handle graph(std::uint64_t bytes, bool leaves = false) const {
    Handle graph = nullptr;
    Handle node = nullptr;
    TakeParameters take;
    take.bytes = bytes;
    EXPECT_EQ(driver.call("cuGraphCreate", &graph, 0U), kSuccess);
    EXPECT_EQ(driver.call("cuGraphAddMemAllocNode", &node, graph, Handle{}, std::size_t{0}, &take),
              kSuccess);
    if (leaves) return graph;
    EXPECT_EQ(
        driver.call("cuGraphAddMemFreeNode", &node, graph, &node, std::size_t{1}, take.pointer),
        kSuccess);
    return graph;
  }
  Handle instance(Handle graph) const {
    Handle exec = nullptr;
    EXPECT_EQ(driver.call("cuGraphInstantiateWithFlags", &exec, graph, std::uint64_t{0}), kSuccess);
    return exec;
  }
  int launch(Handle exec) const { return driver.call("cuGraphLaunch", exec, Handle{}); }
  // MiB: used, the most of it, reserved, the most of it.
  std::vector<std::uint64_t> memory() const {
    std::vector<std::uint64_t> values;
    for (int attribute = 0; attribute < 4; ++attribute) {
      std::uint64_t value = 0;
      EXPECT_EQ(
          driver.call("cuDeviceGetGraphMemAttribute", 0, attribute, static_cast<void*>(&value)),
          kSuccess);
      values.push_back(value / kMiB);
    }
    return values;
  }
};

TEST_F(DriverTest, AGraphReservesMemoryWhenItIsFirstNeeded) {
  in_process([] {
    const Graphs graphs;
    Handle graph = nullptr;
    Handle exec = nullptr;
    EXPECT_EQ(taken(graphs.driver,
                    [&] {
                      graph = graphs.graph(256 * kMiB);
                      exec = graphs.instance(graph);
                    }),
              0);
    EXPECT_EQ(taken(graphs.driver, [&] { graphs.driver.call("cuGraphUpload", exec, Handle{}); }),
              256);
    EXPECT_THAT(graphs.memory(), ElementsAre(256, 256, 256, 256));
    Handle second = nullptr;
    EXPECT_EQ(taken(graphs.driver,
                    [&] {
                      EXPECT_EQ(graphs.launch(exec), kSuccess);
                      EXPECT_EQ(graphs.driver.call("cuGraphInstantiateWithFlags", &second, graph,
                                                   std::uint64_t{0}),
                                kNotSupported);
                      EXPECT_EQ(graphs.launch(graphs.instance(graphs.graph(128 * kMiB))), kSuccess);
                      EXPECT_EQ(graphs.driver.call("cuGraphExecDestroy", exec), kSuccess);
                      graphs.driver.synchronize();
                    }),
              0);
    EXPECT_EQ(taken(graphs.driver, [&] { graphs.driver.call("cuDeviceGraphMemTrim", 0); }), -256);
    EXPECT_THAT(graphs.memory(), ElementsAre(0, 256, 0, 256));
  });
}

// The documents: an allocation that the graph does not free is the program's, and a launch is
// invalid as long as it has it.
TEST_F(DriverTest, AnAllocationOutlivesItsGraphUntilItIsFreed) {
  in_process([] {
    const Graphs graphs;
    const Handle exec = graphs.instance(graphs.graph(64 * kMiB, true));
    EXPECT_EQ(graphs.launch(exec), kSuccess);
    EXPECT_EQ(graphs.launch(exec), kInvalidValue);
    EXPECT_EQ(taken(graphs.driver, [&] { graphs.driver.call("cuDeviceGraphMemTrim", 0); }), 0);
  });
}

// It takes all that is free, and neither destroying nor trimming gives it back.
TEST_F(DriverTest, ALaunchThatDoesNotFitKeepsAllFreeMemory) {
  in_process([] {
    const Graphs graphs;
    const Handle exec = graphs.instance(graphs.graph(graphs.driver.free() + 1024 * kMiB));
    EXPECT_EQ(graphs.launch(exec), kOutOfMemory);
    EXPECT_LT(graphs.driver.free(), 32 * kMiB);
    EXPECT_EQ(graphs.driver.call("cuGraphExecDestroy", exec), kSuccess);
    EXPECT_EQ(graphs.driver.call("cuDeviceGraphMemTrim", 0), kSuccess);
    EXPECT_LT(graphs.driver.free(), 32 * kMiB);
    const std::vector<std::uint64_t> memory = graphs.memory();
    EXPECT_EQ(memory[0], 0U);
    EXPECT_EQ(memory[2] % 32, 0U);
    EXPECT_GT(memory[2], 142'000U);
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu
