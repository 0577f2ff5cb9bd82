// Programs that share a limit never have more of the card than it, whatever they do, also where
// they are killed: what the card shows is compared after each step of share_history_client.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "plugin/share/look.h"
#include "test/gpu/driver_under_test.h"
#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

constexpr char kUuid[] = "GPU-6d677075-0000-4000-8000-000000000001";
constexpr char kSteps[] = "50";
constexpr std::uint64_t kHistories = 20;  // of all programs, without the variable
constexpr std::uint64_t kOfRound = 1'000;
constexpr std::uint64_t kEndless = 1'000'000;
constexpr unsigned kFewPrograms = 8;
constexpr unsigned kManyPrograms = 64;

class ShareHistory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    // Contexts are so small that many programs have one.
    ASSERT_TRUE(
        create_machine(std::string("cards: [{idleMiB: 0, contextMiB: 30, uuid: ") + kUuid + "}]",
                       folder_ + "/machine"));
    std::filesystem::create_directories(pages());
    std::ofstream(folder_ + "/finished") << std::string(sizeof(std::uint64_t), '\0');
    share::PageValues values{.limit_bytes = 4096 * kMiB, .context_bytes = 40 * kMiB};
    ASSERT_TRUE(share::read_uuid(kUuid, values.uuid));
    ASSERT_EQ(share::make_pages(pages().c_str(), values), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string pages() const { return folder_ + "/share/" + kUuid; }

  std::uint64_t finished() const {
    std::uint64_t number = 0;
    std::ifstream(folder_ + "/finished").read(reinterpret_cast<char*>(&number), sizeof number);
    return number;
  }

  // The account and the card say that nothing is used.
  void expect_nothing_used() const {
    share::Look look;
    std::uint8_t uuid[16];
    ASSERT_TRUE(share::read_uuid(kUuid, uuid));
    ASSERT_EQ(share::look_at(pages().c_str(), uuid, &look), nullptr);
    ASSERT_EQ(look.used_bytes, 0U);
    std::string why;
    const auto machine = Machine::open(folder_ + "/machine", why);
    ASSERT_EQ(machine->free(0), machine->total(0));
  }

  pid_t start(std::uint64_t seed, std::uint64_t histories) const {
    const auto programs =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake-gpu";
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (::chdir(folder_.c_str()) != 0) ::_exit(3);
    ::setenv("MGPU_FAKE_GPU", (folder_ + "/machine").c_str(), 1);
    ::setenv("LD_LIBRARY_PATH", (programs / "share").c_str(), 1);
    ::setenv("MGPU_LIMIT_MIB", "4096", 1);
    ::setenv("MGPU_HISTORIES", (folder_ + "/finished").c_str(), 1);
    ::execl((programs / "fake_gpu_history").c_str(), "fake_gpu_history",
            std::to_string(seed).c_str(), kSteps, std::to_string(histories).c_str(), nullptr);
    ::_exit(3);
  }

  // Returns 1 if it did not end before; that it has no memory is no fault.
  std::uint64_t kill_when_finished(pid_t child, std::uint64_t until) const {
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if (finished() >= until) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        break;
      }
      ::usleep(1'000);
    }
    EXPECT_TRUE(status == 0 || status == SIGKILL) << status;
    return status == SIGKILL ? 1 : 0;
  }

  // Not on a disk, where locks of mappings may not be kept.
  std::string folder_ = "/dev/shm/mgpu-history-XXXXXX";
};

// MGPU_TEST_HISTORIES is the number of histories, which are others each time. In a round every
// second program is killed, each when all of them have finished some more histories.
TEST_F(ShareHistory, ProgramsNeverHaveMoreThanTheirLimit) {
  const char* const asked = std::getenv("MGPU_TEST_HISTORIES");
  const std::uint64_t wanted = asked != nullptr ? std::strtoull(asked, nullptr, 10) : kHistories;
  std::mt19937_64 random(asked != nullptr ? std::random_device{}() : 3);
  std::uint64_t seed = random();
  std::uint64_t killed = 0;
  while (finished() < wanted && !HasFailure()) {
    const auto programs = 1 + random() % (asked != nullptr ? kManyPrograms : kFewPrograms);
    const std::uint64_t of_program = std::min(wanted, kOfRound) / programs + 1;
    std::vector<pid_t> endless;
    std::vector<pid_t> ending;
    for (std::uint64_t i = 0; i < programs; ++i, seed += kEndless) {
      const bool ends = i % 2 != 0;
      (ends ? ending : endless).push_back(start(seed, ends ? of_program : kEndless));
    }
    std::uint64_t until = finished();
    for (const pid_t child : endless) {
      until += random() % (2 * of_program);
      killed += kill_when_finished(child, until);
    }
    for (const pid_t child : ending) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    expect_nothing_used();
  }
  if (asked == nullptr) return;
  std::printf("%llu histories, %llu programs killed\n", static_cast<unsigned long long>(finished()),
              static_cast<unsigned long long>(killed));
}

}  // namespace
}  // namespace mgpu::fake_gpu
