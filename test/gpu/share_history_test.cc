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

  // Not on a disk, where locks of mappings may not be kept.
  std::string folder_ = "/dev/shm/mgpu-history-XXXXXX";
};

// MGPU_TEST_HISTORIES is the number of histories. Every second program is killed.
TEST_F(ShareHistory, ProgramsNeverHaveMoreThanTheirLimit) {
  const char* const asked = std::getenv("MGPU_TEST_HISTORIES");
  const std::uint64_t wanted = asked != nullptr ? std::strtoull(asked, nullptr, 10) : kHistories;
  const std::uint64_t of_program = std::clamp<std::uint64_t>(wanted / 1'000, 2, 1'000);
  std::mt19937_64 random(3);
  std::uint64_t killed = 0;
  for (std::uint64_t seed = 0; finished() < wanted && !HasFailure();) {
    const auto programs = 1 + random() % (asked != nullptr ? kManyPrograms : kFewPrograms);
    std::vector<pid_t> children;
    for (; children.size() < programs; seed += of_program) {
      children.push_back(start(seed, of_program));
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      const bool is_killed = i % 2 == 0;
      if (is_killed) ::usleep(static_cast<unsigned>(random() % 100'000));
      if (is_killed) ::kill(children[i], SIGKILL);
      int status = 0;
      ::waitpid(children[i], &status, 0);
      EXPECT_TRUE(status == 0 || (is_killed && WIFSIGNALED(status))) << status;
      if (WIFSIGNALED(status)) ++killed;
    }
    expect_nothing_used();
  }
  if (asked == nullptr) return;
  std::printf("%llu histories, %llu programs killed\n", static_cast<unsigned long long>(finished()),
              static_cast<unsigned long long>(killed));
}

}  // namespace
}  // namespace mgpu::fake_gpu
