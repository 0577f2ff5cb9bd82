// The program mgpu-mps, with a cards file and a fake of NVIDIA's control program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/process.h"
#include "plugin/cards/driver/release_marker.h"
#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {

class MpsService : public testing::Test {
 protected:
  MpsService() : folder_("/tmp/mps-service." + std::to_string(::getpid())) {
    std::filesystem::create_directories(folder_);
    set_cards("GPU-a");
  }
  ~MpsService() override {
    if (service_ > 0) kill_session(service_);
    for (const char* card : {"GPU-a", "GPU-b"})
      if (const auto daemon = daemon_of(card)) kill_mps_daemon(*daemon);
    std::filesystem::remove_all(folder_);
  }

  void set_cards(const std::string& uuid) const {
    const std::string path = folder_ + "/cards.yaml";
    std::ofstream(path + ".new") << "cards: [{index: 0, uuid: " << uuid
                                 << ", model: V100, memoryMiB: 1000, devices: [/dev/null]}]\n";
    std::filesystem::rename(path + ".new", path);
  }
  void start(std::vector<std::string> of_cards = {}) {
    if (of_cards.empty()) of_cards = {"--cards-file=" + folder_ + "/cards.yaml"};
    std::vector<std::string> arguments = {"--run-dir=" + folder_,
                                          "--mps-control=" + beside_the_test("fake_mps_control"),
                                          "--log-level=off"};
    arguments.insert(arguments.end(), of_cards.begin(), of_cards.end());
    const auto started =
        spawn({.path = std::filesystem::canonical(beside_the_test("../plugin/mgpu-mps")),
               .arguments = std::move(arguments),
               .variables = {},
               .in = STDIN_FILENO,
               .out = STDERR_FILENO});
    ASSERT_TRUE(started) << started.error().message;
    service_ = *started;
  }
  // Returns the wait status.
  int end_with(int signal) {
    ::kill(service_, signal);
    int status = 0;
    EXPECT_EQ(::waitpid(service_, &status, 0), service_);
    service_ = 0;
    return status;
  }
  std::optional<DaemonProcess> daemon_of(const char* card) const {
    return known_mps_daemon(mps_folders(folder_, CardUuid(card)));
  }
  // Waits without a limit; ctest's timeout ends a test that waits in vain.
  template <class Condition>
  static void until(const Condition& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

  const std::string folder_;
  pid_t service_ = 0;
};

TEST_F(MpsService, EndsItsDaemonsWhenItIsStopped) {
  start();
  until([this] { return daemon_of("GPU-a").has_value(); });
  EXPECT_EQ(end_with(SIGTERM), 0);
  EXPECT_EQ(daemon_of("GPU-a"), std::nullopt);
}

TEST_F(MpsService, FindsItsDaemonsAgainAfterItWasKilled) {
  start();
  until([this] { return daemon_of("GPU-a").has_value(); });
  const auto daemon = daemon_of("GPU-a");
  end_with(SIGKILL);
  EXPECT_EQ(daemon_of("GPU-a"), daemon);
  set_cards("GPU-b");
  start();
  until([this] { return daemon_of("GPU-b") && !daemon_of("GPU-a"); });
  EXPECT_EQ(end_with(SIGTERM), 0);
}

TEST_F(MpsService, FollowsTheCardsOfTheNode) {
  start();
  until([this] { return daemon_of("GPU-a").has_value(); });
  set_cards("GPU-b");
  until([this] { return daemon_of("GPU-b") && !daemon_of("GPU-a"); });
  EXPECT_EQ(end_with(SIGTERM), 0);
}

TEST_F(MpsService, HasNoDaemonsWhileTheDriverIsReleased) {
  start();
  until([this] { return daemon_of("GPU-a").has_value(); });
  ASSERT_TRUE(mark_release(folder_, true));
  until([this] { return !daemon_of("GPU-a"); });
  ASSERT_TRUE(mark_release(folder_, false));
  until([this] { return daemon_of("GPU-a").has_value(); });
  EXPECT_EQ(end_with(SIGTERM), 0);
}

TEST_F(MpsService, ClosesNvmlWhileTheDriverIsReleased) {
  const FakeDriver driver;
  driver.set_scenario("card GPU-a\n");
  driver.add_cuda();
  start({"--nvml-library=" + beside_the_test("fake_nvml.so"), "--node-root=" + driver.root()});
  until([this] { return daemon_of("GPU-a").has_value(); });
  ASSERT_TRUE(mark_release(folder_, true));
  until([&] { return driver.log().ends_with("shutdown"); });
  ASSERT_TRUE(mark_release(folder_, false));
  until([&] { return driver.log().ends_with("register GPU-a"); });
  EXPECT_EQ(end_with(SIGTERM), 0);
}

// The kernel module was replaced, and this process may still have the library of the earlier one.
TEST_F(MpsService, EndsWhereOnlyANewProcessCanUseTheNewDriver) {
  const FakeDriver driver;
  driver.set_scenario("card GPU-a\n");
  driver.add_cuda();
  start({"--nvml-library=" + beside_the_test("fake_nvml.so"), "--node-root=" + driver.root()});
  until([this] { return daemon_of("GPU-a").has_value(); });
  ASSERT_TRUE(mark_release(folder_, true));
  until([&] { return driver.log().ends_with("shutdown"); });
  driver.set_scenario("card GPU-a\nfail nvmlInit_v2 18\n");
  ASSERT_TRUE(mark_release(folder_, false));
  int status = 0;
  EXPECT_EQ(::waitpid(service_, &status, 0), service_);
  service_ = 0;
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(MpsService, DoesNotReadTheFileThatMarksARelease) {
  start();
  until([this] { return daemon_of("GPU-a").has_value(); });
  end_with(SIGKILL);
  std::filesystem::create_symlink("/no/such/file", release_marker(folder_));
  start();
  until([this] { return !daemon_of("GPU-a"); });
  EXPECT_EQ(end_with(SIGTERM), 0);
}

TEST_F(MpsService, RefusesAPathThatIsNotAbsolute) {
  const auto output =
      run_with_input({.path = std::filesystem::canonical(beside_the_test("../plugin/mgpu-mps")),
                      .arguments = {"--run-dir=here"},
                      .variables = {}},
                     "", 4096, std::chrono::seconds(60));
  ASSERT_FALSE(output);
  EXPECT_THAT(output.error().message, testing::HasSubstr("exit code 2"));
  EXPECT_THAT(output.error().message, testing::HasSubstr("--run-dir"));
}

}  // namespace
}  // namespace mgpu::plugin
