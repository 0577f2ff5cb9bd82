// The pages of shares on the node. Mounts are made in a mount namespace of this process alone.
#include "plugin/containers/share_pages.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/log.h"
#include "plugin/containers/reserved_memory.h"
#include "plugin/share/look.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kFirst[] = "GPU-6d677075-0000-4000-8000-000000000001";
constexpr char kSecond[] = "GPU-6d677075-0000-4000-8000-000000000002";
constexpr std::size_t kMiBytes = std::size_t{1} << 20;

class SharePagesTest : public testing::Test {
 public:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0) << "this test needs root";
    ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  }
  SharePagesTest() {
    EXPECT_TRUE(set_log_level("off"));
    record_ = test::started(test::allocated(test::device_ids(30), "a"), "x", 0);
    record_.cards.front().uuid = CardUuid(kFirst);
    record_.cards.front().share.memory = MiB(2'048);
    CardGrant whole = record_.cards.front();
    whole.uuid = CardUuid(kSecond);
    whole.share = {kWholeCard, MiB(4'096)};
    record_.cards.push_back(whole);
  }
  ~SharePagesTest() override { pages_.remove(record_.id); }

  std::string file(const std::string& card, const std::string& name) const {
    return pages_.folder_of(record_.id) + "/" + card + "/" + name;
  }
  share::Look look(const std::string& card) const {
    std::uint8_t uuid[16];
    share::Look look;
    EXPECT_TRUE(share::read_uuid(card.c_str(), uuid));
    const auto* const failure =
        share::look_at((pages_.folder_of(record_.id) + "/" + card).c_str(), uuid, &look);
    EXPECT_EQ(failure, nullptr) << failure;
    return look;
  }

  test::ScratchFolder folder_;
  Record record_;
  SharePages pages_{folder_.path("share"), MiB(528)};
};

TEST_F(SharePagesTest, HaveTheLimitOfEachCard) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  EXPECT_EQ(look(kFirst).limit_bytes, 2'048 * kMiBytes);
  EXPECT_EQ(look(kSecond).limit_bytes, share::kUnitsMax * share::kUnit) << "nobody else is there";
  EXPECT_EQ(pages_.reserved(record_),
            (std::map<CardUuid, MiB>{{CardUuid(kFirst), MiB()}, {CardUuid(kSecond), MiB()}}));
}

// Whoever may write a file of the node could fill the memory of the node.
TEST_F(SharePagesTest, LeaveNoPlaceForMore) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  ASSERT_EQ(::truncate(file(kFirst, "usage").c_str(), 1 << 30), 0) << "a hole takes nothing";
  std::ofstream usage(file(kFirst, "usage"), std::ios::in | std::ios::out | std::ios::binary);
  usage.seekp(64 << 10);
  usage << std::string(8 << 10, 'x') << std::flush;
  EXPECT_FALSE(usage.good());
  std::ofstream other(file(kFirst, "other"));
  EXPECT_FALSE(other.good());
}

TEST_F(SharePagesTest, StayWhenTheContainerStartsAgain) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  std::ofstream(file(kFirst, "usage"), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(64)
      .write("\1", 1)
      .flush();
  pages_.set_overhead(record_.id, CardUuid(kFirst), MiB(100));
  EXPECT_EQ(look(kFirst).overhead_bytes, 100 * kMiBytes);
  ASSERT_TRUE(pages_.prepare(record_, false));
  EXPECT_EQ(look(kFirst).used_bytes, share::kUnit) << "of a process of its last start";
  EXPECT_EQ(look(kFirst).overhead_bytes, 0U) << "it is found again";
}

TEST_F(SharePagesTest, AreMadeAnewWhereTheyAreDamagedOrHaveAnotherLimit) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  ASSERT_EQ(::truncate(file(kFirst, "usage").c_str(), 10), 0);
  EXPECT_EQ(pages_.reserved(record_).at(CardUuid(kFirst)), MiB())
      << "otherwise nothing would be reported of a container that damages its page";
  ASSERT_TRUE(pages_.prepare(record_, false));
  EXPECT_EQ(look(kFirst).used_bytes, 0U);
  record_.cards.front().share.memory = MiB(1'024);
  ASSERT_TRUE(pages_.prepare(record_, false));
  EXPECT_EQ(look(kFirst).limit_bytes, 1'024 * kMiBytes);
}

// Whoever writes a page could hide what it uses.
TEST_F(SharePagesTest, ReserveNoMoreThanTheShare) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  std::ofstream(file(kFirst, "usage"), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(64)
      .write("\xff\xff\xff\xff", 4)
      .flush();
  EXPECT_EQ(pages_.reserved(record_).at(CardUuid(kFirst)), MiB(2'048));
}

// The owner of a file may hold a lease on it, for which others who open it wait for 45 seconds.
TEST_F(SharePagesTest, WaitForNoLease) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  const int limits = ::open(file(kFirst, "limits").c_str(), O_RDONLY | O_CLOEXEC);
  ::signal(SIGIO, SIG_IGN);  // whoever holds the lease is told
  ASSERT_EQ(::fcntl(limits, F_SETLEASE, F_RDLCK), 0);
  pages_.set_overhead(record_.id, CardUuid(kFirst), MiB(100));
  EXPECT_EQ(look(kFirst).overhead_bytes, 0U) << "it did not wait";
  ::close(limits);
  pages_.set_overhead(record_.id, CardUuid(kFirst), MiB(100));
  EXPECT_EQ(look(kFirst).overhead_bytes, 100 * kMiBytes);
}

TEST_F(SharePagesTest, OfContainersThatAreNotKnownAreRemoved) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  pages_.keep_only({record_});
  EXPECT_TRUE(std::filesystem::exists(file(kFirst, "limits")));
  pages_.keep_only({});
  EXPECT_FALSE(std::filesystem::exists(pages_.folder_of(record_.id)));
}

TEST_F(SharePagesTest, AreReadAroundTheReadingOfTheDriver) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  Records records(folder_.path("records"));
  ASSERT_TRUE(records.keep(record_));
  ReservedMemory reserved(pages_, records);
  EXPECT_THAT(reserved.most(record_.id), IsEmpty());
  const auto reserve = [&](char units_of_2_mib) {
    const char bytes[] = {0, static_cast<char>(units_of_2_mib << 4), 0, 0};
    std::ofstream(file(kFirst, "usage"), std::ios::in | std::ios::out | std::ios::binary)
        .seekp(64)
        .write(bytes, sizeof(bytes))
        .flush();
    reserved.read();
  };
  const std::pair<int, std::int64_t> steps[] = {{4, 8}, {2, 8}, {0, 4}, {0, 0}};
  for (const auto& [now, most] : steps) {
    reserve(static_cast<char>(now));
    EXPECT_EQ(reserved.most(record_.id).at(CardUuid(kFirst)), MiB(most)) << now;
  }
}

TEST_F(SharePagesTest, EndWithTheirContainer) {
  ASSERT_TRUE(pages_.prepare(record_, false));
  pages_.remove(record_.id);
  EXPECT_FALSE(std::filesystem::exists(pages_.folder_of(record_.id)));
  EXPECT_THAT(pages_.reserved(record_), IsEmpty());
  pages_.remove(record_.id);
}

TEST_F(SharePagesTest, SayWhyTheyCannotBeMade) {
  std::ofstream(folder_.path("share")) << "in the way";
  EXPECT_THAT(pages_.prepare(record_, false).error().message,
              HasSubstr("cannot make " + folder_.path()));
}

TEST_F(SharePagesTest, NeedUuidsOfNvml) {
  EXPECT_TRUE(can_have_pages(CardUuid(kFirst)));
  EXPECT_TRUE(can_have_pages(CardUuid("MIG-6d677075-0000-4000-8000-000000000001")));
  for (const char* const other :
       {"GPU-0", "6d677075-0000-4000-8000-000000000001", "GPU-6D677075-0000-4000-8000-000000000001",
        "GPU-6d6770750000400080000000000000012"}) {
    EXPECT_FALSE(can_have_pages(CardUuid(other))) << other;
  }
}

TEST_F(SharePagesTest, NeedMountsThatReachTheNode) {
  const std::string propagated = folder_.path("run"), kept = folder_.path("kept");
  for (const std::string& folder : {propagated, kept}) {
    std::filesystem::create_directory(folder);
    ASSERT_EQ(::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  ASSERT_EQ(::mount("none", propagated.c_str(), nullptr, MS_SHARED, nullptr), 0);
  std::filesystem::create_directories(folder_.path("proc/1/ns"));
  const std::string of_node = folder_.path("proc/1/ns/mnt");
  std::filesystem::create_symlink("mnt:[1]", of_node);
  EXPECT_TRUE(check_mounts_of_node(propagated + "/share", folder_.path("proc")));
  EXPECT_THAT(check_mounts_of_node(kept, folder_.path("proc")).error().message,
              HasSubstr("mountPropagation: Bidirectional"));
  std::filesystem::remove(of_node);
  std::filesystem::copy_symlink("/proc/self/ns/mnt", of_node);
  EXPECT_TRUE(check_mounts_of_node(kept, folder_.path("proc")));
  for (const std::string& folder : {propagated, kept}) ::umount(folder.c_str());
}

}  // namespace
}  // namespace mgpu::plugin
