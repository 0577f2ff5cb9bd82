#include "common/base/callback_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mgpu {
namespace {

using testing::ElementsAre;

TEST(CallbackGuard, PassesTheArgumentsOfACallback) {
  CallbackGuard guard;
  std::vector<std::string> got;
  const std::function<void(const std::string&, int)> callback = guard.wrap(
      [&](const std::string& text, int number) { got.push_back(text + std::to_string(number)); });
  callback("a", 1);
  callback("b", 2);
  EXPECT_THAT(got, ElementsAre("a1", "b2"));
}

TEST(CallbackGuard, IgnoresCallsAfterItsDestruction) {
  int calls = 0;
  std::function<void()> callback;
  {
    CallbackGuard guard;
    callback = guard.wrap([&] { ++calls; });
    callback();
  }
  callback();
  EXPECT_EQ(calls, 1);
}

TEST(CallbackGuard, ClosesBeforeItsDestructionAndMoreThanOnce) {
  CallbackGuard guard;
  int calls = 0;
  const std::function<void()> callback = guard.wrap([&] { ++calls; });
  guard.close();
  guard.close();
  callback();
  guard.wrap([&] { ++calls; })();
  EXPECT_EQ(calls, 0);
}

TEST(CallbackGuard, MayBeDestroyedByACallback) {
  auto guard = std::make_optional<CallbackGuard>();
  std::vector<std::string> steps;
  std::function<void()> later = guard->wrap([&] { steps.push_back("later"); });
  guard->wrap([&] {
    guard.reset();
    later();
    steps.push_back("end");
  })();
  later();
  EXPECT_THAT(steps, ElementsAre("end"));
}

TEST(CallbackGuard, MayBeDestroyedWithACallbackThatDestroysItself) {
  struct Owner {
    std::function<void()> callback;
    CallbackGuard guard;
  };
  auto owner = std::make_unique<Owner>();
  owner->callback = owner->guard.wrap([&] { owner.reset(); });
  owner->callback();
  EXPECT_EQ(owner, nullptr);
}

TEST(CallbackGuard, CallsMayNest) {
  CallbackGuard guard;
  int calls = 0;
  auto inner = guard.wrap([&] { ++calls; });
  guard.wrap([&] {
    inner();
    inner();
  })();
  EXPECT_EQ(calls, 2);
}

TEST(CallbackGuard, WaitsForTheCallbackThatIsRunning) {
  std::atomic<bool> running = false;
  std::atomic<bool> go_on = false;
  std::atomic<bool> done = false;
  auto guard = std::make_optional<CallbackGuard>();
  std::thread caller([&, callback = guard->wrap([&] {
    running = true;
    while (!go_on) std::this_thread::yield();
    done = true;
  })]() mutable { callback(); });
  while (!running) std::this_thread::yield();
  std::thread ender([&] {
    guard.reset();
    EXPECT_TRUE(done);
  });
  go_on = true;
  ender.join();
  caller.join();
}

// For ThreadSanitizer and AddressSanitizer: the data of a callback is destroyed after the guard.
TEST(CallbackGuard, IsDestroyedWhileThreadsCall) {
  for (int round = 0; round < 200; ++round) {
    auto value = std::make_unique<int>(0);
    auto guard = std::make_optional<CallbackGuard>();
    const std::function<void()> callback = guard->wrap([&] { ++*value; });
    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i) callers.emplace_back([callback] { callback(); });
    guard.reset();
    value.reset();
    for (std::thread& caller : callers) caller.join();
  }
}

}  // namespace
}  // namespace mgpu
