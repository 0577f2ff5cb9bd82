#include "common/kube/config/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/limits.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokenSourceTest : public ::testing::Test {
 public:
  TokenSourceTest()
      : file_(std::filesystem::path(::testing::TempDir()) /
              ("rotating-" + std::to_string(::getpid()))) {
    config_.token_file = file_;
  }
  ~TokenSourceTest() override { std::filesystem::remove(file_); }

  void write(std::string_view text) { std::ofstream(file_, std::ios::binary) << text; }

  const std::filesystem::path file_;
  Config config_;
  Instant now_{};
};

TEST_F(TokenSourceTest, IsEmptyWhereNoTokenIsConfigured) {
  auto source = TokenSource::create(Config{}, now_);
  ASSERT_TRUE(source);
  EXPECT_EQ(source->token(now_), "");
  EXPECT_FALSE(source->replaced("", now_));
}

TEST_F(TokenSourceTest, PrefersTheFile) {
  write(" from-file \n");
  config_.token = "given";
  EXPECT_EQ(TokenSource::create(config_, now_)->token(now_), "from-file");
  config_.token_file.clear();
  EXPECT_EQ(TokenSource::create(config_, now_)->token(now_), "given");
}

TEST_F(TokenSourceTest, ReadsTheFileAgainOnceItIsAMinuteOld) {
  write("one");
  auto source = TokenSource::create(config_, now_).value();
  write("two");
  now_ += kTokenRereadInterval - Duration(1);
  EXPECT_EQ(source.token(now_), "one");
  now_ += Duration(1);
  EXPECT_EQ(source.token(now_), "two");
}

TEST_F(TokenSourceTest, ReadsTheFileAtOnceWhenTheTokenWasRefused) {
  write("one");
  auto source = TokenSource::create(config_, now_).value();
  EXPECT_FALSE(source.replaced("one", now_));
  write("two");
  EXPECT_TRUE(source.replaced("one", now_));
  EXPECT_EQ(source.token(now_), "two");
}

TEST_F(TokenSourceTest, KeepsTheLastTokenWhereTheFileIsInvalid) {
  write("one");
  auto source = TokenSource::create(config_, now_).value();
  for (const std::string_view text : {"", "\n", "a b", "a\nb", "caf\xC3\xA9"}) {
    write(text);
    EXPECT_FALSE(source.replaced("one", now_)) << text;
    EXPECT_EQ(source.token(now_), "one");
  }
  std::filesystem::remove(file_);
  EXPECT_FALSE(source.replaced("one", now_));
}

TEST_F(TokenSourceTest, NamesTheFileAndNotTheTokenWhereItIsInvalid) {
  write("se cret");
  const auto source = TokenSource::create(config_, now_);
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr(file_.string()));
  EXPECT_THAT(source.error().message, Not(HasSubstr("cret")));
  write(std::string(kCredentialFileBytesMax + 1, 'x'));
  EXPECT_THAT(TokenSource::create(config_, now_).error().message, HasSubstr("at most"));
}

}  // namespace
}  // namespace mgpu::kube
