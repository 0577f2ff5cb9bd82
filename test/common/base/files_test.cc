#include "common/base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "test/support/scratch_folder.h"

namespace mgpu {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

UniqueFd open_null() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int number) {
  return ::fcntl(number, F_GETFD) != -1;
}

TEST(UniqueFd, ClosesInItsDestructor) {
  int number = -1;
  {
    const UniqueFd file = open_null();
    number = file.number();
    EXPECT_TRUE(file.is_open());
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(UniqueFd, OwnsNothingAfterAFailedOpen) {
  const UniqueFd file(::open("/no/such/file", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(file.is_open());
  EXPECT_FALSE(UniqueFd().is_open());
}

TEST(UniqueFd, MovesWhatItOwns) {
  UniqueFd first = open_null();
  const int number = first.number();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.is_open());
  EXPECT_EQ(second.number(), number);
  UniqueFd third = open_null();
  const int replaced = third.number();
  third = std::move(second);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_EQ(third.number(), number);
  EXPECT_TRUE(is_open(number));
}

TEST(UniqueFd, ClosesOnceAndKeepsErrno) {
  UniqueFd file = open_null();
  errno = ENOENT;
  file.close();
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(file.is_open());
  file.close();
  EXPECT_EQ(file.number(), -1);
}

class ReadFile : public testing::Test {
 protected:
  std::string why_not(const std::string& path, std::size_t bytes_max = 100) {
    const auto text = read_file(path, bytes_max, "record");
    return text ? "" : text.error().message;
  }

  test::ScratchFolder folder_;
  const std::string path_ = folder_.path("x");
};

TEST_F(ReadFile, ReturnsTheWholeContent) {
  const std::string text = "a\nb" + std::string(50'000, '\0') + "c";
  std::ofstream(path_) << text;
  EXPECT_EQ(*read_file(path_, text.size()), text);
  EXPECT_EQ(why_not(path_, text.size() - 1),
            "record \"" + path_ + "\" must have at most 50003 bytes, has more");
}

TEST_F(ReadFile, MayBeEmpty) {
  std::ofstream(path_).flush();
  EXPECT_EQ(*read_file(path_, 0), "");
}

TEST_F(ReadFile, ReadsFilesOfProc) {
  EXPECT_FALSE(read_file("/proc/self/stat", 4096)->empty());
}

TEST_F(ReadFile, FollowsLinks) {
  std::ofstream(path_) << "text";
  std::filesystem::create_symlink(path_, folder_.path("link"));
  EXPECT_EQ(*read_file(folder_.path("link"), 4), "text");
}

TEST_F(ReadFile, NamesTheFileItCannotRead) {
  EXPECT_EQ(why_not(path_), "cannot read record \"" + path_ + "\": No such file or directory");
  EXPECT_EQ(read_file(path_, 1).error().message,
            "cannot read file \"" + path_ + "\": No such file or directory");
  EXPECT_THAT(why_not(path_ + std::string(5'000, 'x')),
              AllOf(HasSubstr("File name too long"), SizeIs(testing::Lt(200U))));
}

TEST_F(ReadFile, RefusesWhatIsNotARegularFileWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, folder_.path(), std::string("/dev/zero")}) {
    EXPECT_EQ(why_not(path), "cannot read record \"" + path + "\": it is not a regular file");
  }
}

TEST_F(ReadFile, ReadsAnOpenFileFromItsOffset) {
  std::ofstream(path_) << "0123456789";
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::lseek(file.number(), 4, SEEK_SET), 4);
  EXPECT_EQ(*read_open_file(file, path_, 6), "456789");
}

}  // namespace
}  // namespace mgpu
