// mgpu-mps: runs the MPS daemons of this node's cards until SIGTERM or SIGINT, apart from the
// device plugin, which can then be restarted and upgraded while programs use the cards.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/program/program.h"
#include "plugin/agent/flags.h"
#include "plugin/cards/driver/release_marker.h"
#include "plugin/cards/mps/mps.h"

namespace {

using mgpu::log_info;
using mgpu::log_warn;
using mgpu::Result;
using mgpu::plugin::CardSource;
using mgpu::plugin::Flags;
using mgpu::plugin::Mps;
using mgpu::plugin::MpsState;

// Keeps a daemon for each healthy card until it is stopped. While the cards cannot be read, all
// daemons stay; the daemon of a card that is not healthy is drained. While the device plugin
// requests it, the driver is closed and all daemons are drained.
class CardFollower {
 public:
  CardFollower(CardSource& source, Mps& mps, std::string run_dir)
      : source_(source), mps_(mps), run_dir_(std::move(run_dir)), thread_([this] { run(); }) {}

  // Returns why the process has to end, if that is so.
  Result<void> stop() {
    stopping_ = true;
    source_.interrupt();
    thread_.join();
    return problem_.empty() ? Result<void>() : mgpu::error(problem_);
  }

 private:
  void run() {
    while (!stopping_) {
      const bool released = mgpu::plugin::is_release_marked(run_dir_);
      if (released != released_) {
        log_info(released ? "the driver is released, and daemons without clients end"
                          : "the driver is used again",
                 {{"file", mgpu::plugin::release_marker(run_dir_)}});
      }
      released_ = released;
      was_released_ = was_released_ || released;
      if (released) {
        mps_.set_cards({});
        source_.release();
      } else if (!read()) {
        return mgpu::request_shutdown();
      }
      source_.wait_for_change(mgpu::plugin::kInventoryPeriod);
    }
  }

  // False: the process has to end. It does so only after a release, when no daemon is left that
  // programs depend on.
  bool read() {
    const auto found = source_.read();
    const std::string problem = found ? "" : found.error().message;
    if (problem != logged_ && !problem.empty()) {
      log_warn("the cards cannot be read",
               {{"source", source_.description()}, {"problem", problem}});
    }
    logged_ = problem;
    if (!found) {
      const bool may_end = was_released_ && std::ranges::none_of(mps_.states(), &MpsState::running);
      if (may_end) problem_ = source_.needs_restart();
      return problem_.empty();
    }
    std::vector<mgpu::CardUuid> healthy;
    for (const auto& card : found->cards) {
      if (card.health == mgpu::kHealthy) healthy.push_back(card.uuid);
    }
    mps_.set_cards(healthy);
    return true;
  }

  CardSource& source_;
  Mps& mps_;
  const std::string run_dir_;
  std::atomic<bool> stopping_ = false;
  // Used by the thread, and by stop() after its end.
  bool released_ = false;
  bool was_released_ = false;
  std::string logged_;
  std::string problem_;
  std::thread thread_;
};

Result<void> serve(const Flags& flags) {
  auto source = mgpu::plugin::card_source_of(flags);
  if (!source) return source.error();
  log_info("starting", {{"run_dir", flags.run_dir}, {"mps_control", flags.mps_control}});
  mgpu::plugin::MpsOptions mps_options;
  mps_options.control = flags.mps_control;
  mps_options.run_dir = flags.run_dir;
  mgpu::plugin::ComputeModes modes(mgpu::plugin::nvml_calls_of(flags), flags.run_dir);
  mps_options.modes = &modes;
  Mps mps(mps_options);
  CardFollower follower(**source, mps, flags.run_dir);
  mgpu::wait_for_shutdown();
  auto ended = follower.stop();
  mps.stop();
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  mgpu::Options options("mgpu-mps", "Runs one MPS daemon for each card of this node.", "MGPU_MPS");
  mgpu::plugin::add_mps_service_flags(options, flags);
  return mgpu::run_local_program(argc, argv, "mgpu-mps", options, flags,
                                 [&flags] { return serve(flags); });
}
