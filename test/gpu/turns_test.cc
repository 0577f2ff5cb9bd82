// Programs in shares of one card, with the plugin's part of turns and the library of containers.
// The fake card runs kernels in the order of their launches, so that without turns it is the length
// of the queues that decides who gets how much.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "plugin/containers/turn_control.h"
#include "test/gpu/driver_under_test.h"

namespace mgpu::fake_gpu {
namespace {

using plugin::Record;
using plugin::TurnControl;
using plugin::TurnRule;
using testing::AllOf;
using testing::Gt;
using testing::Lt;

constexpr char kTurnsCard[] = "GPU-6d677075-0000-4000-8000-000000000001";

// A child that reads from and writes to this process.
class Program {
 public:
  Program(const std::string& folder, const std::vector<std::string>& words) {
    int to[2] = {-1, -1};
    int from[2] = {-1, -1};
    EXPECT_EQ(::pipe2(to, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) run(folder, words, to[0], from[1]);
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = ::fdopen(from[0], "r");
    EXPECT_EQ(read(), "ready");
  }
  ~Program() {
    kill();
    ::close(to_);
    std::fclose(from_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  Program(Program&&) = delete;
  Program& operator=(Program&&) = delete;

  void begin() const { EXPECT_EQ(::write(to_, "x", 1), 1); }
  std::string read() {
    std::string line;
    for (int byte = std::fgetc(from_); byte != EOF && byte != '\n'; byte = std::fgetc(from_)) {
      line.push_back(static_cast<char>(byte));
    }
    return line;
  }
  double kernels() { return std::atof(read().c_str()); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void run(const std::string& folder, const std::vector<std::string>& words,
                               int in, int out) {
    const auto programs =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake-gpu";
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    if (::chdir(folder.c_str()) != 0) ::_exit(3);
    ::setenv("MGPU_FAKE_GPU", (folder + "/../machine").c_str(), 1);
    ::setenv("LD_LIBRARY_PATH", (programs / "share").c_str(), 1);
    const std::string program = programs / "fake_gpu_turns";
    ::execl(program.c_str(), "fake_gpu_turns", words.at(0).c_str(), words.at(1).c_str(),
            words.at(2).c_str(), words.at(3).c_str(), nullptr);
    ::_exit(3);
  }

  pid_t pid_ = -1;
  int to_ = -1;
  std::FILE* from_ = nullptr;
};

class Turns : public testing::Test {
 protected:
  void SetUp() override {
    EXPECT_TRUE(set_log_level("off"));
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_TRUE(create_machine(std::string("cards: [{idleMiB: 0, uuid: ") + kTurnsCard + "}]",
                               folder_ + "/machine"));
    pages_.emplace(folder_, MiB(528));
    records_.emplace(scratch_.path("records"));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Returns the folder of its programs.
  std::string add_container(const std::string& hash, int percent) {
    const Record record{
        .id = plugin::AllocationId(hash + "-a"),
        .devices = {},
        .owner = plugin::Owner{},
        .cards = {{CardIndex(0), CardUuid(kTurnsCard), {Percent(percent), MiB(4'096)}}}};
    EXPECT_TRUE(records_->keep(record));
    const std::string of_container = pages_->folder_of(record.id);
    const std::string pages = of_container + "/" + kTurnsCard;
    std::filesystem::create_directories(pages);
    std::filesystem::create_directory_symlink(".", of_container + "/share");
    share::PageValues values{.limit_bytes = 4'096 * kMiB, .context_bytes = 528 * kMiB};
    EXPECT_TRUE(share::read_uuid(kTurnsCard, values.uuid));
    EXPECT_EQ(share::make_pages(pages.c_str(), values), nullptr);
    EXPECT_EQ(share::make_turn_pages(pages.c_str(), values.uuid), nullptr);
    return of_container;
  }

  void keep_turns(TurnRule rule) { control_.emplace(*pages_, *records_, rule); }

  // The same, of three tries: this machine may be busy with something else.
  static double part_between(double least, double most, const std::vector<std::string>& first,
                             const std::vector<std::string>& second, const std::string& one,
                             const std::string& other) {
    double part = -1;
    for (int tries = 0; tries < 3 && (part < least || part > most); ++tries) {
      part = part_of_first(first, second, one, other);
    }
    return part;
  }

  // What the first container has of all kernels, by time.
  static double part_of_first(const std::vector<std::string>& first,
                              const std::vector<std::string>& second, const std::string& one,
                              const std::string& other) {
    Program a(one, first);
    Program b(other, second);
    a.begin();
    b.begin();
    const double of_a = a.kernels() * std::atof(first.at(0).c_str());
    const double of_b = b.kernels() * std::atof(second.at(0).c_str());
    return of_a / (of_a + of_b);
  }

  test::ScratchFolder scratch_;
  // Not on a disk, where locks of mappings may not be kept.
  std::string folder_ = "/dev/shm/mgpu-turns-XXXXXX";
  std::optional<plugin::SharePages> pages_;
  std::optional<plugin::Records> records_;
  std::optional<TurnControl> control_;
};

const std::vector<std::string> kBusy = {"200", "0", "1", "1000"};

TEST_F(Turns, GiveEachContainerItsShareOfTheTime) {
  const std::string first = add_container("a", 70);
  const std::string second = add_container("b", 30);
  keep_turns(TurnRule::kBurst);
  EXPECT_THAT(part_between(0.6, 0.8, kBusy, kBusy, first, second), AllOf(Gt(0.6), Lt(0.8)));
  const std::vector<std::string> long_kernels = {"5000", "0", "2", "1000"};
  EXPECT_THAT(part_between(0.6, 0.8, kBusy, long_kernels, first, second), AllOf(Gt(0.6), Lt(0.8)))
      << "time counts, and not how many kernels there are";
  control_.reset();
  EXPECT_THAT(part_between(0.4, 0.6, kBusy, kBusy, first, second), AllOf(Gt(0.4), Lt(0.6)))
      << "without turns the shares decide nothing";
}

TEST_F(Turns, LendWhatAContainerDoesNotUse) {
  const std::string first = add_container("a", 70);
  const std::string second = add_container("b", 30);
  keep_turns(TurnRule::kBurst);
  const std::vector<std::string> seldom = {"200", "20000", "1", "1000"};
  EXPECT_THAT(part_of_first(seldom, kBusy, first, second), Lt(0.1));
}

TEST_F(Turns, LimitAContainerThatIsAloneWhereSharesAreFixed) {
  const std::string folder = add_container("a", 30);
  const auto kernels = [&] {
    Program program(folder, kBusy);
    program.begin();
    return program.kernels();
  };
  const double without = kernels();
  keep_turns(TurnRule::kFixed);
  EXPECT_THAT(kernels() / without, AllOf(Gt(0.05), Lt(0.4)));
  control_.reset();
  keep_turns(TurnRule::kBurst);
  EXPECT_THAT(kernels() / without, Gt(0.8));
}

// Two processes of a container are one container.
TEST_F(Turns, AreThoseOfAContainerAndNotOfAProcess) {
  const std::string first = add_container("a", 50);
  const std::string second = add_container("b", 50);
  keep_turns(TurnRule::kBurst);
  Program other(first, {"200", "0", "1", "30000"});  // longer than the others need to start
  other.begin();
  EXPECT_THAT(part_of_first(kBusy, kBusy, first, second), Lt(0.4));
}

TEST_F(Turns, GoOnWhereAProcessOfTheHolderIsKilled) {
  const std::string first = add_container("a", 50);
  const std::string second = add_container("b", 50);
  keep_turns(TurnRule::kBurst);
  for (int i = 0; i < 5; ++i) {
    Program killed(first, {"200", "0", "1", "60000"});
    Program goes_on(second, {"200", "0", "1", "300"});
    killed.begin();
    goes_on.begin();
    ::usleep(100'000 + static_cast<unsigned>(i) * 3'000);
    killed.kill();
    EXPECT_THAT(goes_on.kernels(), Gt(0));
  }
}

// Its turn must not seem to have work as long as another process of the container has some.
TEST_F(Turns, GoOnWhereAProcessBesideABusyOneIsKilled) {
  const std::string first = add_container("a", 50);
  const std::string second = add_container("b", 50);
  keep_turns(TurnRule::kBurst);
  Program killed(first, {"200", "0", "1", "60000"});
  Program sibling(first, {"200", "0", "1", "60000"});
  Program other(second, {"200", "0", "1", "1000"});
  killed.begin();
  sibling.begin();
  ::usleep(100'000);
  killed.kill();
  other.begin();
  EXPECT_THAT(other.kernels(), Gt(800)) << "of 5,000 in a second";
}

TEST_F(Turns, DoNotHoldBackAProgramThatMakesContextsOrForks) {
  const std::string folder = add_container("a", 50);
  const std::string other = add_container("b", 50);
  keep_turns(TurnRule::kBurst);
  Program contexts(folder, {"200", "contexts", "1", "500"});
  contexts.begin();
  EXPECT_THAT(contexts.kernels(), Gt(50));
  // The thread that watches has the lock for most of the time.
  Program busy(other, {"200", "0", "1", "10000"});
  busy.begin();
  Program forks(folder, {"200", "forks", "1", "1000"});
  forks.begin();
  EXPECT_THAT(forks.kernels(), Gt(20));
}

// A container that starts again may get other pages.
TEST_F(Turns, FollowAContainerThatGetsOtherPages) {
  const std::string first = add_container("a", 70);
  const std::string second = add_container("b", 30);
  keep_turns(TurnRule::kBurst);
  ::usleep(50'000);
  std::filesystem::remove_all(first);
  add_container("a", 70);
  ::usleep(700'000);
  EXPECT_THAT(part_between(0.6, 0.8, kBusy, kBusy, first, second), AllOf(Gt(0.6), Lt(0.8)));
}

TEST_F(Turns, EndWithThePlugin) {
  const std::string first = add_container("a", 50);
  const std::string second = add_container("b", 50);
  const std::string page = first + "/" + kTurnsCard + "/turn";
  keep_turns(TurnRule::kBurst);
  ::usleep(50'000);
  control_.reset();
  // As a plugin that was killed leaves it.
  std::uint32_t word = share::kTurnWait;
  const int file = ::open(page.c_str(), O_RDWR);
  ASSERT_EQ(::pwrite(file, &word, sizeof(word), offsetof(share::TurnPage, turn)), 4);
  ::close(file);
  Program program(first, {"200", "0", "1", "500"});
  program.begin();
  EXPECT_THAT(program.kernels(), Gt(500)) << "it waits once, and not before each launch";
  // And it takes part in the turns of the next one.
  keep_turns(TurnRule::kFixed);
  const double alone = [&] {
    Program again(first, kBusy);
    again.begin();
    return again.kernels();
  }();
  EXPECT_THAT(alone, AllOf(Gt(300), Lt(4'000)));
}

}  // namespace
}  // namespace mgpu::fake_gpu
