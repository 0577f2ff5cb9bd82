#include "plugin/share/look.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "plugin/share/account.h"
#include "test/plugin/share/share_folder.h"

namespace mgpu::share {
namespace {

using testing::HasSubstr;

class LookTest : public testing::Test {
 protected:
  Look look() const {
    Look seen;
    EXPECT_EQ(look_at(folder.path().c_str(), kCard, &seen), nullptr);
    return seen;
  }

  std::string refusal() const {
    Look seen;
    const Failure failure = look_at(folder.path().c_str(), kCard, &seen);
    return failure != nullptr ? failure : "none";
  }

  // A process that holds this much until it is killed.
  pid_t start_holder_of(std::uint64_t bytes) const {
    return start_until([&](const auto& reached) {
      Account account;
      if (account.attach(folder.path().c_str(), kCard) == nullptr && account.reserve(bytes)) {
        reached();
      }
    });
  }

  static void end(pid_t child) {
    kill(child, SIGKILL);
    end_of(child);
  }

  std::string content() const {
    std::ifstream file(folder.path() + "/usage", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ShareFolder folder;
};

TEST_F(LookTest, TellsOfProcessesThatLiveAndChangesNothing) {
  folder.limit(1000 * kMiB);
  const pid_t first = start_holder_of(100 * kMiB);
  const pid_t second = start_holder_of(20 * kMiB);
  const std::string before = content();
  EXPECT_EQ(look().limit_bytes, 1000 * kMiB);
  EXPECT_EQ(look().used_bytes, 120 * kMiB);
  end(first);
  EXPECT_EQ(look().used_bytes, 20 * kMiB);
  end(second);  // whose operation is the last one, which nobody has copied into its slot
  EXPECT_EQ(look().used_bytes, 0U);
  EXPECT_EQ(content(), before);
  Account account;
  ASSERT_EQ(account.attach(folder.path().c_str(), kCard), nullptr);
  EXPECT_TRUE(account.reserve(7));
  EXPECT_EQ(look().used_bytes, kUnit);
}

TEST_F(LookTest, IsBoundedWhateverIsInThePage) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 50; ++i) {
    std::filesystem::remove(folder.path() + "/limits");
    folder.limit(1000 * kMiB);
    std::string garbage(sizeof(UsagePage) - sizeof(PageHeader), '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    folder.overwrite("usage", sizeof(PageHeader), garbage);
    folder.overwrite("limits", offsetof(LimitsPage, limit), garbage.substr(0, 8));
    EXPECT_LE(look().used_bytes, kUnitsMax * kUnit);
    EXPECT_LE(look().limit_bytes, kUnitsMax * kUnit);
  }
}

TEST_F(LookTest, SaysWhyAPageCannotBeRead) {
  EXPECT_THAT(refusal(), HasSubstr("is not there"));
  folder.limit(1000 * kMiB);
  folder.overwrite("usage", 0, "none");
  EXPECT_THAT(refusal(), HasSubstr("is not a page of mgpu"));
  std::filesystem::resize_file(folder.path() + "/usage", 100);
  EXPECT_THAT(refusal(), HasSubstr("is too short"));
  std::filesystem::remove(folder.path() + "/usage");
  EXPECT_THAT(refusal(), HasSubstr("is not there"));
  ASSERT_EQ(mkfifo((folder.path() + "/usage").c_str(), 0666), 0);
  EXPECT_NE(refusal(), "none") << "nobody waits for a pipe without a writer";
  folder.overwrite("limits", offsetof(PageHeader, version), "\x02");
  EXPECT_THAT(refusal(), HasSubstr("another version"));
}

TEST(Uuid, IsReadAsItIsWritten) {
  char text[41];
  write_uuid(kCard, text);
  std::uint8_t read[16] = {};
  EXPECT_TRUE(read_uuid(text, read));
  EXPECT_THAT(read, testing::ElementsAreArray(kCard));
  for (const char* same :
       {"ABCD0102-0304-0506-0708-090a0b0c0d0e", "MIG-abcd0102-0304-0506-0708-090a0b0c0d0e"}) {
    std::ranges::fill(read, std::uint8_t{0});
    EXPECT_TRUE(read_uuid(same, read)) << same;
    EXPECT_THAT(read, testing::ElementsAreArray(kCard));
  }
  for (const char* wrong :
       {"", "GPU-", "GPU-abcd", "mig-abcd0102-0304-0506-0708-090a0b0c0d0e",
        "GPU-abcd0102-0304-0506-0708-090a0b0c0d0e1", "GPU-abcd0102-0304-0506-0708-090a0b0c0d0g"}) {
    EXPECT_FALSE(read_uuid(wrong, read)) << wrong;
  }
}

}  // namespace
}  // namespace mgpu::share
