// Captures of streams, as the documents of cuStreamBeginCapture and
// cuThreadExchangeStreamCaptureMode say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

using testing::ElementsAre;

constexpr int kGlobal = 0;
constexpr int kRelaxed = 2;

struct Captures {
  const Driver driver{};
  const Handle stream = new_stream();

  Handle new_stream() const {
    Handle made = nullptr;
    EXPECT_EQ(driver.call("cuStreamCreate", &made, 1U), kSuccess);
    return made;
  }
  Handle new_event() const {
    Handle made = nullptr;
    EXPECT_EQ(driver.call("cuEventCreate", &made, 0U), kSuccess);
    return made;
  }
  int begin(int mode = kGlobal) const {
    return driver.call("cuStreamBeginCapture_v2", stream, mode);
  }
  int end(Handle* graph) const { return driver.call("cuStreamEndCapture", stream, graph); }
  int end() const {
    Handle graph = nullptr;
    return end(&graph);
  }
  // 0: not captured, 1: captured, 2: captured and invalid.
  int status(Handle asked) const {
    int status = -1;
    EXPECT_EQ(driver.call("cuStreamIsCapturing", asked, &status), kSuccess);
    return status;
  }
  Pointer take(std::uint64_t bytes) const {
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAllocAsync", &pointer, std::size_t{bytes}, stream), kSuccess);
    return pointer;
  }
  Handle instance(Handle graph) const {
    Handle exec = nullptr;
    EXPECT_EQ(driver.call("cuGraphInstantiateWithFlags", &exec, graph, std::uint64_t{0}), kSuccess);
    return exec;
  }
  int record(Handle event, Handle on) const { return driver.call("cuEventRecord", event, on); }
  int wait(Handle on, Handle event) const {
    return driver.call("cuStreamWaitEvent", on, event, 0U);
  }
};

std::vector<int> kinds_of(const Driver& driver, Handle graph) {
  Handle nodes[8] = {};
  std::size_t count = 8;
  EXPECT_EQ(driver.call("cuGraphGetNodes", graph, &nodes[0], &count), kSuccess);
  std::vector<int> kinds(count);
  for (std::size_t i = 0; i < count; ++i) driver.call("cuGraphNodeGetType", nodes[i], &kinds[i]);
  return kinds;
}

TEST_F(DriverTest, WorkOfACapturedStreamIsDoneWhenItsGraphIsLaunched) {
  in_process([] {
    const Captures captures;
    const Driver& driver = captures.driver;
    const Pointer kept = driver.allocate(kMiB);
    int calls = 0;
    EXPECT_EQ(driver.call("cuMemsetD8_v2", kept, 1, std::size_t{4}), kSuccess);
    EXPECT_EQ(captures.begin(), kSuccess);
    EXPECT_EQ(captures.status(captures.stream), 1);
    EXPECT_EQ(driver.call("cuMemsetD8Async", kept, 7, std::size_t{4}, captures.stream), kSuccess);
    void (*const count)(void*) = [](void* at) { ++*static_cast<int*>(at); };
    EXPECT_EQ(driver.call("cuLaunchHostFunc", captures.stream, count, static_cast<void*>(&calls)),
              kSuccess);
    Handle graph = nullptr;
    EXPECT_EQ(captures.end(&graph), kSuccess);
    EXPECT_EQ(captures.status(captures.stream), 0);
    EXPECT_THAT(kinds_of(driver, graph), ElementsAre(2, 3));
    const auto value = [&] {
      unsigned read = 0;
      EXPECT_EQ(driver.call("cuMemcpyDtoH_v2", static_cast<void*>(&read), kept, std::size_t{4}),
                kSuccess);
      return read;
    };
    EXPECT_EQ(value(), 0x01010101U);
    EXPECT_EQ(calls, 0);
    const Handle exec = captures.instance(graph);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(driver.call("cuGraphLaunch", exec, Handle{}), kSuccess);
    EXPECT_EQ(value(), 0x07070707U);
    EXPECT_EQ(calls, 2);
  });
}

TEST_F(DriverTest, ACaptureTakesNothingAndItsGraphWhatWasAllocated) {
  in_process([] {
    const Captures captures;
    const Driver& driver = captures.driver;
    Handle graph = nullptr;
    EXPECT_EQ(taken(driver,
                    [&] {
                      EXPECT_EQ(captures.begin(kRelaxed), kSuccess);
                      const Pointer memory = captures.take(300 * kMiB);
                      EXPECT_EQ(driver.call("cuMemFreeAsync", memory, captures.stream), kSuccess);
                      EXPECT_EQ(captures.end(&graph), kSuccess);
                    }),
              0);
    EXPECT_THAT(kinds_of(driver, graph), ElementsAre(10, 11));
    EXPECT_EQ(taken(driver,
                    [&] {
                      const Handle exec = captures.instance(graph);
                      EXPECT_EQ(driver.call("cuGraphLaunch", exec, Handle{}), kSuccess);
                    }),
              320);
  });
}

TEST_F(DriverTest, ACallThatACaptureDoesNotAllowEndsIt) {
  in_process([] {
    const Captures captures;
    const Driver& driver = captures.driver;
    EXPECT_EQ(driver.call("cuStreamBeginCapture_v2", Handle{}, kGlobal), kCaptureUnsupported);
    EXPECT_EQ(captures.end(), kIllegalState);
    EXPECT_EQ(captures.begin(), kSuccess);
    EXPECT_EQ(captures.begin(), kIllegalState);
    EXPECT_EQ(driver.call("cuStreamSynchronize", captures.stream), kCaptureUnsupported);
    EXPECT_EQ(captures.status(captures.stream), 2);
    Handle graph = &graph;
    EXPECT_EQ(captures.end(&graph), kCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(driver.call("cuStreamSynchronize", captures.stream), kSuccess);
    // What may synchronize, such as cuMemAlloc, in no thread, unless the capture or the thread is
    // relaxed.
    EXPECT_EQ(captures.begin(), kSuccess);
    Pointer pointer = 0;
    EXPECT_EQ(driver.call("cuMemAlloc_v2", &pointer, std::size_t{1}), kCaptureUnsupported);
    EXPECT_EQ(captures.end(), kCaptureInvalidated);
    EXPECT_EQ(captures.begin(kRelaxed), kSuccess);
    EXPECT_NE(driver.allocate(1), 0U);
    EXPECT_EQ(captures.end(), kSuccess);
    EXPECT_EQ(captures.begin(), kSuccess);
    int mode = kRelaxed;
    EXPECT_EQ(driver.call("cuThreadExchangeStreamCaptureMode", &mode), kSuccess);
    EXPECT_EQ(mode, kGlobal);
    EXPECT_NE(driver.allocate(1), 0U);
    EXPECT_EQ(captures.end(), kSuccess);
  });
}

TEST_F(DriverTest, StreamsThatWaitForACaptureAreCapturedWithIt) {
  in_process([] {
    const Captures captures;
    const Driver& driver = captures.driver;
    const Handle other = captures.new_stream();
    const Handle fork = captures.new_event();
    const Handle join = captures.new_event();
    EXPECT_EQ(captures.begin(), kSuccess);
    EXPECT_EQ(captures.record(fork, captures.stream), kSuccess);
    EXPECT_EQ(captures.wait(other, fork), kSuccess);
    EXPECT_EQ(captures.status(other), 1);
    EXPECT_EQ(captures.record(join, other), kSuccess);
    EXPECT_EQ(captures.wait(captures.stream, join), kSuccess);
    EXPECT_EQ(captures.end(), kSuccess);
    EXPECT_EQ(captures.status(other), 0);
    // Without the second half.
    EXPECT_EQ(captures.begin(), kSuccess);
    EXPECT_EQ(captures.record(fork, captures.stream), kSuccess);
    EXPECT_EQ(captures.wait(other, fork), kSuccess);
    EXPECT_EQ(captures.end(), kCaptureUnjoined);
    // What is outside is not waited for, and an event inside says nothing outside.
    EXPECT_EQ(captures.record(join, other), kSuccess);
    EXPECT_EQ(captures.begin(), kSuccess);
    EXPECT_EQ(captures.wait(captures.stream, join), kCaptureIsolation);
    EXPECT_EQ(captures.end(), kCaptureInvalidated);
    EXPECT_EQ(captures.begin(), kSuccess);
    EXPECT_EQ(captures.record(fork, captures.stream), kSuccess);
    EXPECT_EQ(driver.call("cuEventQuery", fork), kCapturedEvent);
    EXPECT_EQ(captures.end(), kCaptureInvalidated);
  });
}

}  // namespace
}  // namespace mgpu::fake_gpu
