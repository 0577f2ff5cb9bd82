#include "extender/learning/low_priority_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace mgpu::extender {
namespace {

int priority_of_this_thread() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
}

TEST(LowPriorityThread, RunsEachComputationBeforeItReturns) {
  LowPriorityThread thread;
  int sum = 0;
  for (int i = 1; i <= 100; ++i) thread.run([&sum, i] { sum += i; });
  EXPECT_EQ(sum, 5'050);
}

TEST(LowPriorityThread, OnlyTheComputationHasTheLowPriority) {
  const int before = priority_of_this_thread();
  LowPriorityThread thread;
  int within = 0;
  thread.run([&within] { within = priority_of_this_thread(); });
  EXPECT_EQ(within, 15);
  EXPECT_EQ(priority_of_this_thread(), before);
}

TEST(LowPriorityThread, EndsWhetherItHasRunOrNot) {
  const LowPriorityThread unused;
  LowPriorityThread used;
  used.run([] {});
}

}  // namespace
}  // namespace mgpu::extender
