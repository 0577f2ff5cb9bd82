// Programs that share a limit never have more of the card than it, whatever they do, also where
// they are killed: what the card shows is compared after each step of share_history_client.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <string>
#include <vector>

#include "plugin/share/look.h"
#include "test/gpu/driver_under_test.h"
#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

constexpr char kUuid[] = "GPU-6d677075-0000-4000-8000-000000000001";
constexpr int kRounds = 3;
constexpr int kPrograms = 4;
constexpr char kSteps[] = "200";

class ShareHistory : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_TRUE(create_machine(std::string("cards: [{idleMiB: 0, uuid: ") + kUuid + "}]",
                               folder_ + "/machine"));
    std::filesystem::create_directories(pages());
    share::PageValues values{.limit_bytes = 4096 * kMiB, .context_bytes = 528 * kMiB};
    ASSERT_TRUE(share::read_uuid(kUuid, values.uuid));
    ASSERT_EQ(share::make_pages(pages().c_str(), values), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string pages() const { return folder_ + "/share/" + kUuid; }

  pid_t start(int seed) const {
    const auto programs =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake-gpu";
    const pid_t child = ::fork();
    if (child != 0) return child;
    if (::chdir(folder_.c_str()) != 0) ::_exit(3);
    ::setenv("MGPU_FAKE_GPU", (folder_ + "/machine").c_str(), 1);
    ::setenv("LD_LIBRARY_PATH", (programs / "share").c_str(), 1);
    ::setenv("MGPU_LIMIT_MIB", "4096", 1);
    ::execl((programs / "fake_gpu_history").c_str(), "fake_gpu_history",
            std::to_string(seed).c_str(), kSteps, nullptr);
    ::_exit(3);
  }

  // Not on a disk, where locks of mappings may not be kept.
  std::string folder_ = "/dev/shm/mgpu-history-XXXXXX";
};

TEST_F(ShareHistory, ProgramsNeverHaveMoreThanTheirLimit) {
  std::mt19937 random(3);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < kPrograms; ++i) children.push_back(start(round * kPrograms + i));
    for (int i = 0; i < kPrograms; ++i) {
      const bool killed = i % 2 == 0;
      ::usleep(static_cast<unsigned>(random() % 100'000));
      if (killed) ::kill(children[static_cast<std::size_t>(i)], SIGKILL);
      int status = 0;
      ::waitpid(children[static_cast<std::size_t>(i)], &status, 0);
      EXPECT_TRUE(status == 0 || (killed && WIFSIGNALED(status))) << status;
    }
  }
  share::Look look;
  std::uint8_t uuid[16];
  ASSERT_TRUE(share::read_uuid(kUuid, uuid));
  EXPECT_EQ(share::look_at(pages().c_str(), uuid, &look), nullptr);
  EXPECT_EQ(look.used_bytes, 0U);
  std::string why;
  const auto machine = Machine::open(folder_ + "/machine", why);
  EXPECT_EQ(machine->free(0), machine->total(0));
}

}  // namespace
}  // namespace mgpu::fake_gpu
