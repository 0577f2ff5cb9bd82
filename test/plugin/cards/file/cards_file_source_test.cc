#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "plugin/cards/file/cards_file.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

std::string one_card(const std::string& health) {
  return "cards: [{index: 0, uuid: GPU-a, model: V100, memoryMiB: 32510, health: " + health +
         ", devices: [], processes: [{pid: 7, memoryMiB: 5}]}]\n";
}

class CardsFileSource : public testing::Test {
 protected:
  CardsFileSource() : folder_(testing::TempDir() + "cards_file." + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/cards.yaml";
  }
  ~CardsFileSource() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& text) const {
    const std::string written = path_ + ".new";
    std::ofstream(written) << text;
    std::filesystem::rename(written, path_);
  }

  // Reads until the source reports no change, as the inventory does.
  static void settle(CardSource& source) {
    for (int i = 0; i < 2; ++i) {
      source.wait_for_change(2 * kFileTimeTick);
      (void)source.read();
    }
  }

  static std::string health_of(CardSource& source) {
    const auto inventory = source.read();
    return inventory ? inventory->cards.at(0).health : inventory.error().message;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(CardsFileSource, ReadsTheFileAsItIsNow) {
  const auto source = cards_file_source(path_);
  write(one_card("Healthy"));
  EXPECT_EQ(health_of(*source), "Healthy");
  write(one_card("XID 79"));
  EXPECT_EQ(health_of(*source), "XID 79");
  EXPECT_EQ(source->description(), path_);
}

TEST_F(CardsFileSource, NamesTheFileInErrors) {
  const auto source = cards_file_source(path_);
  EXPECT_EQ(health_of(*source),
            "cannot read cards file \"" + path_ + "\": No such file or directory");
  write("cards: 7");
  EXPECT_EQ(health_of(*source),
            "cards file \"" + path_ + "\": cards must be a list, found something else");
}

TEST_F(CardsFileSource, RefusesAnythingButARegularFile) {
  EXPECT_THAT(health_of(*cards_file_source(folder_)), HasSubstr("it is not a regular file"));
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(health_of(*cards_file_source(pipe)), HasSubstr("it is not a regular file"));
  EXPECT_THAT(health_of(*cards_file_source("/dev/zero")), HasSubstr("it is not a regular file"));
  EXPECT_THAT(health_of(*cards_file_source(path_ + std::string(5'000, 'x'))),
              AllOf(HasSubstr("File name too long"), SizeIs(testing::Lt(300))));
}

TEST_F(CardsFileSource, RefusesALargeFile) {
  write(std::string(kCardsFileBytesMax + 1, ' '));
  EXPECT_THAT(health_of(*cards_file_source(path_)),
              HasSubstr("must have at most 1048576 bytes, has more"));
}

TEST_F(CardsFileSource, KeepsTheLastUseWhileTheFileIsInvalid) {
  const auto source = cards_file_source(path_);
  EXPECT_THAT(source->use(), SizeIs(0));
  write(one_card("Healthy"));
  ASSERT_TRUE(source->read());
  write("broken: [");
  EXPECT_FALSE(source->read());
  ASSERT_THAT(source->use(), SizeIs(1));
  EXPECT_EQ(source->use()[0].memory_used, MiB(5));
}

// Every wait ends long before its timeout; otherwise ctest ends the test.
TEST_F(CardsFileSource, EndsAWaitWhenTheFileIsReplacedChangedOrRemoved) {
  write(one_card("Healthy"));
  const auto source = cards_file_source(path_);
  ASSERT_TRUE(source->read());
  settle(*source);
  write(one_card("XID 79"));
  source->wait_for_change(hours(1));
  EXPECT_EQ(health_of(*source), "XID 79");
  settle(*source);
  std::ofstream(path_, std::ios::trunc) << one_card("XID 48");
  source->wait_for_change(hours(1));
  EXPECT_EQ(health_of(*source), "XID 48");
  settle(*source);
  std::filesystem::remove(path_);
  source->wait_for_change(hours(1));
  EXPECT_THAT(health_of(*source), StartsWith("cannot read cards file"));
  write(one_card("Healthy"));
  source->wait_for_change(hours(1));
  EXPECT_EQ(health_of(*source), "Healthy");
}

TEST_F(CardsFileSource, NoticesAChangeDuringAWait) {
  write(one_card("Healthy"));
  const auto source = cards_file_source(path_);
  ASSERT_TRUE(source->read());
  std::thread writer([&] { write(one_card("XID 79")); });
  while (health_of(*source) != "XID 79") source->wait_for_change(hours(1));
  writer.join();
}

TEST_F(CardsFileSource, WaitsNoLongerThanItsTimeout) {
  write(one_card("Healthy"));
  const auto source = cards_file_source(path_);
  settle(*source);
  source->wait_for_change(milliseconds(1));
  source->wait_for_change(milliseconds(0));
}

TEST_F(CardsFileSource, EndsAWaitWhenInterrupted) {
  write(one_card("Healthy"));
  const auto source = cards_file_source(path_);
  settle(*source);
  source->interrupt();
  source->wait_for_change(hours(1));
  std::thread other([&] { source->interrupt(); });
  source->wait_for_change(hours(1));
  other.join();
}

}  // namespace
}  // namespace mgpu::plugin
