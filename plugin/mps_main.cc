// mgpu-mps: runs the MPS daemons of this node's cards until SIGTERM or SIGINT, apart from the
// device plugin, which can then be restarted and upgraded while programs use the cards.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/program/program.h"
#include "plugin/agent/flags.h"
#include "plugin/cards/mps.h"

namespace {

using mgpu::Result;
using mgpu::plugin::CardSource;
using mgpu::plugin::Flags;

// Keeps a daemon for each healthy card until `stopping`. While the cards cannot be read, all
// daemons stay; the daemon of a card that is not healthy is drained.
void follow_cards(CardSource& source, mgpu::plugin::Mps& mps, const std::atomic<bool>& stopping) {
  std::string logged;
  while (!stopping) {
    const auto found = source.read();
    const std::string problem = found ? "" : found.error().message;
    if (problem != logged && !problem.empty()) {
      mgpu::log_warn("the cards cannot be read",
                     {{"source", source.description()}, {"problem", problem}});
    }
    logged = problem;
    std::vector<mgpu::CardUuid> healthy;
    if (found) {
      for (const auto& card : found->cards) {
        if (card.health == mgpu::kHealthy) healthy.push_back(card.uuid);
      }
      mps.set_cards(healthy);
    }
    source.wait_for_change(mgpu::plugin::kInventoryPeriod);
  }
}

Result<void> serve(const Flags& flags) {
  auto source = mgpu::plugin::card_source_of(flags);
  if (!source) return source.error();
  mgpu::log_info("starting", {{"run_dir", flags.run_dir}, {"mps_control", flags.mps_control}});
  mgpu::plugin::MpsOptions mps_options;
  mps_options.control = flags.mps_control;
  mps_options.run_dir = flags.run_dir;
  mgpu::plugin::ComputeModes modes(mgpu::plugin::nvml_calls_of(flags), flags.run_dir);
  mps_options.modes = &modes;
  mgpu::plugin::Mps mps(mps_options);
  std::atomic<bool> stopping = false;
  std::thread follower([&] { follow_cards(**source, mps, stopping); });
  mgpu::wait_for_shutdown();
  stopping = true;
  (*source)->interrupt();
  follower.join();
  mps.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  mgpu::Options options("mgpu-mps", "Runs one MPS daemon for each card of this node.", "MGPU_MPS");
  mgpu::plugin::add_mps_service_flags(options, flags);
  return mgpu::run_local_program(argc, argv, "mgpu-mps", options, flags,
                                 [&flags] { return serve(flags); });
}
