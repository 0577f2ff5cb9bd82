#include "plugin/share/account.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "test/plugin/share/share_folder.h"

namespace mgpu::share {
namespace {

using testing::HasSubstr;

class AccountTest : public testing::Test {
 protected:
  void attach(Account& account) const {
    ASSERT_EQ(account.attach(folder.path().c_str(), kCard), nullptr);
  }

  // A process that holds this much and does not end by itself.
  pid_t start_holder(std::uint64_t bytes) const {
    return start_until([&](const auto& reached) {
      Account account;
      if (account.attach(folder.path().c_str(), kCard) == nullptr && account.reserve(bytes)) {
        reached();
      }
    });
  }

  ShareFolder folder;
};

void end(pid_t child) {
  kill(child, SIGKILL);
  EXPECT_EQ(end_of(child), -SIGKILL);
}

bool reserve_at_last(Account& account, std::uint64_t bytes) {
  for (int i = 0; i < 10000; ++i) {
    if (account.reserve(bytes)) return true;
    usleep(1000);
  }
  return false;
}

TEST_F(AccountTest, GrantsUntilTheLimit) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  EXPECT_TRUE(account.reserve(6 * kMiB));
  EXPECT_FALSE(account.reserve(5 * kMiB));
  EXPECT_TRUE(account.reserve(4 * kMiB));
  EXPECT_FALSE(account.reserve(1));
  EXPECT_EQ(account.total_bytes(), 10 * kMiB);
  account.give_back(5 * kMiB);
  EXPECT_TRUE(account.reserve(5 * kMiB));
  EXPECT_EQ(account.own_bytes(), 10 * kMiB);
}

TEST_F(AccountTest, RoundsUpToUnits) {
  folder.limit(2 * kUnit);
  Account account;
  attach(account);
  EXPECT_TRUE(account.reserve(1));
  EXPECT_EQ(account.total_bytes(), kUnit);
  EXPECT_FALSE(account.reserve(kUnit + 1));
  account.give_back(1);
  EXPECT_EQ(account.total_bytes(), 0U);
}

TEST_F(AccountTest, RefusesMoreThanCanBeCounted) {
  folder.limit(kUnitsMax * kUnit);
  Account account;
  attach(account);
  EXPECT_FALSE(account.reserve(~std::uint64_t{0}));
  EXPECT_TRUE(account.reserve(kUnitsMax * kUnit));
  EXPECT_FALSE(account.reserve(1));
}

TEST_F(AccountTest, FollowsALimitThatChanges) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  EXPECT_TRUE(account.reserve(10 * kMiB));
  const std::uint64_t limit = units_of(4 * kMiB);
  folder.overwrite("limits", offsetof(LimitsPage, limit),
                   std::string(reinterpret_cast<const char*>(&limit), sizeof(limit)));
  account.give_back(5 * kMiB);
  EXPECT_FALSE(account.reserve(1));
  account.give_back(2 * kMiB);
  EXPECT_TRUE(account.reserve(kMiB));
}

TEST_F(AccountTest, IsSharedByProcesses) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  const pid_t other = start_holder(7 * kMiB);
  EXPECT_EQ(account.total_bytes(), 7 * kMiB);
  EXPECT_FALSE(account.reserve(4 * kMiB));
  EXPECT_TRUE(account.reserve(3 * kMiB));
  end(other);
}

TEST_F(AccountTest, TakesBackWhatAKilledProcessHeld) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  const pid_t first = start_holder(4 * kMiB);
  const pid_t second = start_holder(4 * kMiB);
  end(first);
  EXPECT_TRUE(account.reserve(6 * kMiB));
  EXPECT_FALSE(account.reserve(4 * kMiB));
  end(second);
  EXPECT_TRUE(account.reserve(4 * kMiB));
}

TEST_F(AccountTest, LeavesAStoppedProcessWhatItHolds) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  const pid_t other = start_holder(8 * kMiB);
  kill(other, SIGSTOP);
  int status = 0;
  waitpid(other, &status, WUNTRACED);
  EXPECT_FALSE(account.reserve(3 * kMiB));
  end(other);
}

TEST_F(AccountTest, RemovesTheResidueOfItsSlot) {
  folder.limit(10 * kMiB);
  end(start_holder(8 * kMiB));
  Account account;
  attach(account);
  EXPECT_EQ(account.total_bytes(), 0U);
  EXPECT_EQ(account.own_bytes(), 0U);
}

// A forked child keeps the driver's files open, and so the memory of its parent.
TEST_F(AccountTest, LeavesAnEndedParentWhatItsChildKeeps) {
  folder.limit(10 * kMiB);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = start_until([&](const auto& reached) {
    Account account;
    if (account.attach(folder.path().c_str(), kCard) != nullptr || !account.reserve(8 * kMiB))
      return;
    start_child([&] {
      char byte = account.attached() ? 'b' : 'a';
      close(ends[1]);
      return read(ends[0], &byte, 1) == 1 ? 0 : 1;
    });
    reached();
  });
  close(ends[0]);
  end(parent);
  Account account;
  attach(account);
  EXPECT_FALSE(account.reserve(3 * kMiB));
  ASSERT_EQ(write(ends[1], "e", 1), 1);
  close(ends[1]);
  // The child is not ours, so that nothing says when it has ended.
  EXPECT_TRUE(reserve_at_last(account, 3 * kMiB));
}

TEST_F(AccountTest, IsNotAttachedInAForkedChildUntilItAttachesItself) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  EXPECT_TRUE(account.reserve(4 * kMiB));
  EXPECT_EQ(end_of(start_child([&] {
              if (account.attached()) return 1;
              if (account.attach(folder.path().c_str(), kCard) != nullptr) return 2;
              return account.reserve(6 * kMiB) && !account.reserve(1) ? 0 : 3;
            })),
            0);
  EXPECT_TRUE(account.attached());
  EXPECT_TRUE(account.reserve(6 * kMiB));
}

TEST_F(AccountTest, EndsWithExec) {
  folder.limit(10 * kMiB);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t other = start_child([&] {
    Account account;
    if (account.attach(folder.path().c_str(), kCard) != nullptr || !account.reserve(8 * kMiB))
      return 1;
    return execl("/bin/sleep", "sleep", "60", nullptr);
  });
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "it ends with exec";
  close(ends[0]);
  Account account;
  attach(account);
  // The kernel drops the old mappings a little later than the descriptors.
  EXPECT_TRUE(reserve_at_last(account, 10 * kMiB));
  end(other);
}

TEST_F(AccountTest, IsSharedByThreads) {
  folder.limit(8 * kMiB);
  Account account;
  attach(account);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 2000; ++k) {
        EXPECT_TRUE(account.reserve(2 * kMiB));
        EXPECT_LE(account.total_bytes(), 8 * kMiB);
        account.give_back(2 * kMiB);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account.total_bytes(), 0U);
  EXPECT_EQ(account.own_bytes(), 0U);
}

TEST_F(AccountTest, SurvivesAPageThatIsOverwritten) {
  folder.limit(10 * kMiB);
  Account account;
  attach(account);
  folder.overwrite("usage", 64, std::string(16, '\xf7'));
  account.reserve(kMiB);
  account.give_back(kMiB);
  folder.overwrite("usage", 128, std::string(8192, '\x5a'));
  account.reserve(kMiB);
  account.give_back(std::uint64_t{1} << 40U);
  EXPECT_LE(account.total_bytes(), kUnitsMax * kUnit);
}

TEST_F(AccountTest, DoesNotAttachToAPageThatItCannotUse) {
  Account account;
  const auto failure = [&] {
    const Failure found = account.attach(folder.path().c_str(), kCard);
    return std::string(found == nullptr ? "" : found);
  };
  EXPECT_THAT(failure(), HasSubstr("is not there"));
  folder.limit(10 * kMiB);
  folder.overwrite("limits", 0, "x");
  EXPECT_THAT(failure(), HasSubstr("is not a page"));
  folder.overwrite("limits", 0, "M");
  folder.overwrite("usage", 8, "\x02");
  EXPECT_THAT(failure(), HasSubstr("another version"));
  folder.overwrite("usage", 8, "\x01");
  folder.overwrite("usage", 20, "y");
  EXPECT_THAT(failure(), HasSubstr("another card"));
  ASSERT_EQ(truncate((folder.path() + "/usage").c_str(), 100), 0);
  EXPECT_THAT(failure(), HasSubstr("too short"));
  EXPECT_FALSE(account.attached());
}

// Programs call cuInit again.
TEST_F(AccountTest, LeavesTheSlotOfAnAttemptThatFailed) {
  folder.limit(10 * kMiB);
  folder.overwrite("usage", 20, "y");
  for (unsigned i = 0; i < 2 * kSlots; ++i) {
    Account account;
    ASSERT_THAT(account.attach(folder.path().c_str(), kCard), HasSubstr("another card"));
  }
  folder.overwrite("usage", 20, std::string(1, static_cast<char>(kCard[4])));
  Account account;
  attach(account);
  EXPECT_TRUE(account.reserve(kMiB));
}

TEST(Pages, AreMadeAnewAfterACallThatWasInterrupted) {
  const ShareFolder folder;
  std::ofstream(folder.path() + "/usage.new") << "half";
  std::ofstream(folder.path() + "/usage") << "of an earlier call";
  PageValues values{.limit_bytes = 10 * kMiB};
  std::ranges::copy(kCard, values.uuid);
  ASSERT_EQ(make_pages(folder.path().c_str(), values), nullptr);
  Account account;
  EXPECT_EQ(account.attach(folder.path().c_str(), kCard), nullptr);
  EXPECT_STREQ(make_pages(folder.path().c_str(), values), "exists already");
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/usage.new"));
}

// --- kills ---------------------------------------------------------------------------------------

constexpr int kWorkers = 8;
constexpr std::uint64_t kStressLimit = 64 * kMiB;

// What each worker certainly holds, seen by all: counted after it is reserved, until before it is
// given back.
struct Truth {
  std::atomic<std::uint64_t> held[kWorkers];
};

[[noreturn]] void reserve_and_give_back(const ShareFolder& folder, std::atomic<std::uint64_t>& held,
                                        unsigned seed) {
  Account account;
  if (account.attach(folder.path().c_str(), kCard) != nullptr) _exit(1);
  std::mt19937 random(seed);
  std::vector<std::uint64_t> amounts;
  while (true) {
    const std::uint64_t bytes = (random() % 24 + 1) * kMiB;
    if (amounts.size() < 4 && account.reserve(bytes)) {
      held += bytes;
      amounts.push_back(bytes);
    } else if (!amounts.empty()) {
      held -= amounts.back();
      account.give_back(amounts.back());
      amounts.pop_back();
    }
  }
}

// Of this thread. What a call waits for others it spins: it has nothing to sleep on.
std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

class KillsTest : public AccountTest {
 protected:
  void SetUp() override {
    truth = static_cast<Truth*>(
        mmap(nullptr, sizeof(Truth), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }

  void start(int worker) {
    workers[worker] = start_child([&]() -> int {
      reserve_and_give_back(folder, truth->held[worker], static_cast<unsigned>(random()));
    });
  }

  void kill_one(int worker) {
    kill(workers[worker], SIGKILL);
    ASSERT_EQ(end_of(workers[worker]), -SIGKILL);
    truth->held[worker] = 0;
  }

  void signal_all(int signal) {
    for (const pid_t worker : workers) kill(worker, signal);
    int status = 0;
    if (signal != SIGSTOP) return;
    for (const pid_t worker : workers) waitpid(worker, &status, WUNTRACED);
  }

  // Calls of a process that lives, right after another one was killed.
  void call(Account& account) {
    const auto before = processor_time();
    if (account.reserve(kMiB)) account.give_back(kMiB);
    longest = std::max(longest, processor_time() - before);
  }

  // All workers stand still.
  void check(const Account& account) {
    std::uint64_t sum = 0;
    for (const auto& held : truth->held) sum += held;
    ASSERT_LE(sum, account.total_bytes());
    ASSERT_LE(account.total_bytes(), kStressLimit);
  }

  Truth* truth = nullptr;
  pid_t workers[kWorkers] = {};
  std::mt19937 random{7};
  std::chrono::nanoseconds longest{0};
};

// MGPU_TEST_KILLS is the number of kills.
TEST_F(KillsTest, LeaveAnAccountThatIsExact) {
  const char* const wanted = std::getenv("MGPU_TEST_KILLS");
  const int kills = wanted == nullptr ? 100 : std::stoi(wanted);
  folder.limit(kStressLimit);
  Account account;
  attach(account);
  for (int i = 0; i < kWorkers; ++i) start(i);
  for (int i = 0; i < kills && !HasFatalFailure(); ++i) {
    usleep(static_cast<unsigned>(random() % 1000));
    const int worker = static_cast<int>(random() % kWorkers);
    kill_one(worker);
    call(account);
    start(worker);
    if (i % 8 != 0) continue;
    signal_all(SIGSTOP);
    check(account);
    signal_all(SIGCONT);
  }
  for (int i = 0; i < kWorkers; ++i) kill_one(i);
  EXPECT_TRUE(account.reserve(kStressLimit)) << "all that the killed held is taken back";
  account.give_back(kStressLimit);
  EXPECT_EQ(account.total_bytes(), 0U);
  if (wanted == nullptr) return;
  std::printf("%d kills; a call after one took %.3f ms of processor time at most\n", kills,
              std::chrono::duration<double, std::milli>(longest).count());
}

}  // namespace
}  // namespace mgpu::share
