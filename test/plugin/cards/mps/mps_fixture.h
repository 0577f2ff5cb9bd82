// MPS with daemons of the fake of NVIDIA's program (test/gpu/mps_control.cc).
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "plugin/cards/mps/mps.h"
#include "plugin/cards/mps/mps_daemon.h"
#include "plugin/cards/mps/mps_process.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {

inline const CardUuid kCard("GPU-a");
inline const CardUuid kOther("GPU-b");

class MpsTest : public testing::Test {
 protected:
  MpsTest()
      : run_dir_("/tmp/mps." + std::to_string(::getpid()) + "." + std::to_string(++folders_made_)) {
    options_.control = beside_the_test("fake_mps_control");
    options_.run_dir = run_dir_;
    options_.times = {.command = std::chrono::seconds(20),
                      .tick = std::chrono::milliseconds(5),
                      .probe = std::chrono::milliseconds(10),
                      .start = std::chrono::seconds(60),
                      .quit = std::chrono::seconds(20),
                      .restart_min = std::chrono::milliseconds(1),
                      .restart_max = std::chrono::milliseconds(20)};
  }
  ~MpsTest() override {
    for (const CardUuid& card : {kCard, kOther}) {
      if (const auto daemon = daemon_of(card)) kill_mps_daemon(*daemon);
    }
    std::filesystem::remove_all(run_dir_);
  }

  static FoundCard card(const CardUuid& uuid = kCard) {
    return {.uuid = uuid, .model = "V100", .memory = MiB(32'510)};
  }
  MpsFolders folders(const CardUuid& card = kCard) const { return mps_folders(run_dir_, card); }
  std::optional<DaemonProcess> daemon_of(const CardUuid& card = kCard) const {
    return known_mps_daemon(folders(card));
  }

  // Sets the behaviour of the card's daemon, see test/gpu/mps_control.cc.
  void behave(const std::string& text, const CardUuid& card = kCard) const {
    ASSERT_TRUE(make_mps_folders(folders(card)));
    const std::string path = run_dir_ + "/mps/" + card.str() + "/behaviour";
    std::ofstream(path + ".new") << text << "\n";
    std::filesystem::rename(path + ".new", path);
  }
  // "start GPU-a, quit"
  std::string calls(const CardUuid& card = kCard) const {
    std::ifstream file(run_dir_ + "/mps/" + card.str() + "/calls");
    std::string all;
    for (std::string line; std::getline(file, line);) all += (all.empty() ? "" : ", ") + line;
    return all;
  }

  // Waits without a limit; ctest's timeout ends a test that waits in vain.
  template <class Condition>
  static void until(const Condition& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  static std::string problem_of(const Mps& mps, const CardUuid& card = kCard) {
    const auto ready = mps.ready(card);
    return ready ? "none" : ready.error().message;
  }
  static void until_ready(const Mps& mps, const CardUuid& card = kCard) {
    until([&] { return mps.ready(card).has_value(); });
  }
  static void until_problem(const Mps& mps, const std::string& problem) {
    until([&] { return problem_of(mps).find(problem) != std::string::npos; });
  }

  MpsOptions options_;

 private:
  static inline int folders_made_ = 0;
  const std::string run_dir_;
};

}  // namespace mgpu::plugin
