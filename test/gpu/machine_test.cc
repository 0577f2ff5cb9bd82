#include "test/gpu/machine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "test/gpu/child_process.h"
#include "test/gpu/scenario.h"
#include "test/support/scratch_folder.h"

namespace mgpu::fake_gpu {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class MachineTest : public testing::Test {
 protected:
  MachineTest() {
    EXPECT_TRUE(
        create_machine("cards: [{uuid: GPU-1, memoryMiB: 1000, reservedMiB: 0, idleMiB: 0},"
                       "        {uuid: GPU-2, memoryMiB: 500, reservedMiB: 100}]",
                       path()));
  }
  std::string path() const { return folder_.path("machine"); }
  std::unique_ptr<Machine> open() const {
    std::string why;
    auto machine = Machine::open(path(), why);
    EXPECT_EQ(why, "");
    return machine;
  }
  // As a process that has taken MiB of card 0.
  std::unique_ptr<Machine> holder(std::uint64_t mib) const {
    auto machine = open();
    EXPECT_TRUE(machine->join());
    EXPECT_TRUE(machine->take(0, mib * kMiB, Account::charged));
    return machine;
  }

  const test::ScratchFolder folder_;
};

TEST_F(MachineTest, IsSharedByAllThatOpenIt) {
  const auto one = open();
  EXPECT_EQ(one->card_count(), 2);
  EXPECT_STREQ(one->card(1).uuid, "GPU-2");
  EXPECT_EQ(one->total(1), 400 * kMiB);
  const auto two = holder(300);
  EXPECT_EQ(one->free(0), 700 * kMiB);
  EXPECT_FALSE(one->take(0, 1, Account::charged)) << "it has not joined";
  EXPECT_TRUE(one->join());
  EXPECT_FALSE(one->take(0, 700 * kMiB + 1, Account::charged));
  EXPECT_TRUE(one->take(0, 700 * kMiB, Account::hidden));
  EXPECT_EQ(two->free(0), 0U);
  EXPECT_THAT(two->processes(0), ElementsAre(Field(&ProcessUse::bytes, 300 * kMiB)));
  one->give_back(0, 100 * kMiB, Account::hidden);
  EXPECT_EQ(two->free(0), 100 * kMiB);
}

TEST_F(MachineTest, HasNothingOfThoseThatHaveEnded) {
  const auto observer = open();
  holder(300);
  EXPECT_EQ(observer->free(0, 700 * kMiB), 700 * kMiB) << "that is enough";
  EXPECT_EQ(observer->free(0), 1000 * kMiB);
  EXPECT_THAT(observer->processes(0), IsEmpty());
  holder(300);
  holder(1000);
}

TEST_F(MachineTest, HasItsMemoryBackWhenAKilledProcessIsReaped) {
  const auto observer = open();
  for (int round = 0; round < 5; ++round) {
    ChildProcess child([&](const ChildProcess::Pause& pause) {
      const auto machine = holder(900);
      pause();
    });
    ASSERT_TRUE(child.wait_for_pause());
    EXPECT_EQ(observer->free(0), 100 * kMiB);
    EXPECT_THAT(observer->processes(0),
                ElementsAre(Field(&ProcessUse::pid, static_cast<std::uint64_t>(child.pid()))));
    child.kill();
    EXPECT_EQ(observer->free(0), 1000 * kMiB);
  }
}

// The number of processes is bounded by kProcessesMax, and ended ones leave their place.
TEST_F(MachineTest, HasABoundedNumberOfProcesses) {
  std::vector<std::unique_ptr<Machine>> all;
  for (int i = 0; i < kProcessesMax; ++i) {
    all.push_back(open());
    ASSERT_TRUE(all.back()->join()) << i;
  }
  const auto next = open();
  EXPECT_FALSE(next->join());
  all.pop_back();
  EXPECT_TRUE(next->join());
}

TEST_F(MachineTest, SharesMemoryUntilItsLastHolderEnds) {
  auto exporter = holder(300);
  const auto importer = holder(10);
  const SharedMemory shared = exporter->share(0, 300 * kMiB);
  std::uint64_t bytes = 0;
  EXPECT_EQ(importer->hold(shared, bytes), 0);
  EXPECT_EQ(bytes, 300 * kMiB);
  const auto uses = [&] {
    std::vector<std::uint64_t> mib;
    for (const ProcessUse& use : importer->processes(0)) mib.push_back(use.bytes / kMiB);
    return mib;
  };
  // Measured: it is the exporter's until it frees it, and then the importer's.
  EXPECT_THAT(uses(), ElementsAre(300, 10));
  exporter->drop(shared);
  EXPECT_THAT(uses(), ElementsAre(310));
  exporter.reset();
  EXPECT_EQ(importer->free(0), 690 * kMiB);
  importer->drop(shared);
  EXPECT_EQ(importer->free(0), 990 * kMiB);
  EXPECT_EQ(importer->hold(shared, bytes), -1);
}

TEST_F(MachineTest, KeepsExportedMemoryAsLongAsItsFileIsOpen) {
  auto exporter = holder(300);
  const SharedMemory shared = exporter->share(0, 300 * kMiB);
  const int file = exporter->export_file(shared);
  ASSERT_GE(file, 0);
  const auto importer = holder(10);
  exporter.reset();
  EXPECT_EQ(importer->free(0), 690 * kMiB);
  std::uint64_t bytes = 0;
  EXPECT_EQ(importer->hold(importer->imported(file), bytes), 0);
  ::close(file);
  EXPECT_EQ(importer->free(0), 690 * kMiB);
  importer->drop(shared);
  EXPECT_EQ(importer->free(0), 990 * kMiB);
  const int other = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(importer->imported(other).index, -1);
  ::close(other);
}

// Whatever they were doing, others can use the machine afterwards.
TEST_F(MachineTest, SurvivesKillsAtAnyMoment) {
  const auto observer = holder(10);
  std::mt19937 random(33);
  for (int round = 0; round < 40; ++round) {
    const std::array<int, 2> seeds = {static_cast<int>(random()), static_cast<int>(random())};
    std::vector<std::unique_ptr<ChildProcess>> children;
    for (const int seed : seeds) {
      children.push_back(std::make_unique<ChildProcess>([&](const ChildProcess::Pause& pause) {
        std::mt19937 mine(static_cast<unsigned>(seed));
        const auto machine = holder(0);
        pause();
        while (true) {
          const std::uint64_t bytes = (mine() % 300 + 1) * kMiB;
          if (!machine->take(0, bytes, Account::charged)) continue;
          if (mine() % 2 == 0) {
            const SharedMemory shared = machine->share(0, bytes);
            const int file = machine->export_file(shared);
            machine->drop(shared);
            ::close(file);
          } else {
            machine->give_back(0, bytes, Account::charged);
          }
        }
      }));
      ASSERT_TRUE(children.back()->wait_for_pause());
      children.back()->go_on();
    }
    for (auto i = random() % 50; i > 0; --i) EXPECT_LE(observer->free(0), 990 * kMiB);
    for (const auto& child : children) child->kill();
    ASSERT_EQ(observer->free(0), 990 * kMiB);
  }
}

// Process IDs say nothing there: each namespace has a process 1.
TEST_F(MachineTest, KnowsWhoHasEndedInOtherPidNamespaces) {
  const auto observer = open();
  ChildProcess outside([&](const ChildProcess::Pause& pause) {
    if (::unshare(CLONE_NEWPID) != 0) return;
    ChildProcess inside([&](const ChildProcess::Pause& go_on) {
      const auto machine = holder(300);
      go_on();
    });
    EXPECT_TRUE(inside.wait_for_pause());
    pause();
    inside.kill();
    pause();
  });
  if (!outside.wait_for_pause()) GTEST_SKIP() << "this user cannot make PID namespaces";
  EXPECT_THAT(observer->processes(0), ElementsAre(Field(&ProcessUse::pid, 1U)));
  EXPECT_EQ(observer->free(0), 700 * kMiB);
  outside.go_on();
  ASSERT_TRUE(outside.wait_for_pause());
  EXPECT_EQ(observer->free(0), 1000 * kMiB);
  outside.go_on();
  EXPECT_EQ(outside.wait(), 0);
}

TEST_F(MachineTest, IsForgottenByAFork) {
  auto machine = holder(300);
  const auto observer = open();
  ChildProcess child([&](const ChildProcess::Pause& pause) {
    machine->forget_in_child();
    pause();
  });
  ASSERT_TRUE(child.wait_for_pause());
  machine.reset();
  EXPECT_EQ(observer->free(0), 1000 * kMiB);
}

TEST_F(MachineTest, ReplacedKeepsItsProcesses) {
  const auto old = holder(300);
  ASSERT_TRUE(create_machine("cards: [{uuid: GPU-3}]", path()));
  EXPECT_EQ(old->free(0), 700 * kMiB);
  EXPECT_STREQ(open()->card(0).uuid, "GPU-3");
}

TEST_F(MachineTest, SaysWhatIsNoMachine) {
  std::string why;
  EXPECT_EQ(Machine::open(folder_.path("none"), why), nullptr);
  EXPECT_THAT(why, HasSubstr("none\": No such file"));
  std::ofstream(folder_.path("text")) << "text";
  EXPECT_EQ(Machine::open(folder_.path("text"), why), nullptr);
  EXPECT_THAT(why, HasSubstr("text\" is not a machine of this version"));
}

}  // namespace
}  // namespace mgpu::fake_gpu
