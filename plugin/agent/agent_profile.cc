// The agent's part in the profile of its node: it waits for one at start, applies it to the cards,
// and switches the isolation.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/contract/limits.h"
#include "plugin/agent/agent.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {

namespace {

constexpr std::chrono::milliseconds kLabelsPoll{20};

}  // namespace

MiB default_reserve(IsolationMode mode) {
  constexpr MiB kForMps{512};
  return mode == IsolationMode::kMps || mode == IsolationMode::kAuto ? kForMps : MiB();
}

Share least_share(IsolationMode chosen, const std::vector<CardFacts>& cards) {
  // The context of a CUDA program takes 300 to 600 MiB of it.
  constexpr MiB kMemory{1024};
  Share least;
  // Until the node has chosen, what MPS cannot limit is not placed.
  const bool mps = chosen == IsolationMode::kMps || chosen == IsolationMode::kAuto;
  if (mps || chosen == IsolationMode::kDriver) least.memory = kMemory;
  for (const CardFacts& card : cards) {
    if (!mps) break;
    const std::int64_t core = (card.core.value() + kMpsClientsMax - 1) / kMpsClientsMax;
    least.core = std::max(least.core, Percent(core));
  }
  return least;
}

// Without a profile on disk the labels of the node decide, since a card that its profile reserves
// must not be offered before.
bool Agent::wait_for_profile() {
  if (profiles_.none() || profiles_.restore()) return true;
  set_waiting_for("the labels of node " + settings_.node.str() + ", which choose its profile");
  while (true) {
    if (const auto labels = publisher_.labels()) {
      if (profiles_.choose(*labels)) report_profile();
      return true;
    }
    if (!wait(kLabelsPoll)) return false;
  }
}

std::function<void(std::vector<FoundCard>&)> Agent::profile_hook() {
  if (settings_.profiles.empty()) return {};
  return [this](std::vector<FoundCard>& cards) { apply_profile(cards); };
}

void Agent::apply_profile(std::vector<FoundCard>& cards) {
  if (const auto labels = publisher_.labels(); labels && profiles_.choose(*labels)) {
    report_profile();
    changed_.notify_all();
  }
  const Profile profile = profiles_.current().value_or(Profile{.name = ""});
  const MiB of_flags = settings_.reserve.value_or(default_reserve(wanted_isolation()));
  plugin::apply_profile(profile, profile.reserve.value_or(of_flags), cards);
}

void Agent::report_profile() {
  if (const std::string problem = profiles_.problem(); !problem.empty()) {
    log_warn("the labels of the node choose no profile, and the last one stays",
             {{"problem", problem}});
    events_.on_node({Event::Type::kWarning, "MGPUProfileUnknown", problem});
    return;
  }
  const auto profile = profiles_.current();
  const std::string message = profile ? "the node follows the profile " + profile->name
                                      : "the node follows no profile, and has the settings of the "
                                        "flags";
  log_info("profile applied", {{"profile", profile ? profile->name : ""}});
  events_.on_node({Event::Type::kNormal, "MGPUProfile", message});
}

// --- isolation -----------------------------------------------------------------------------------

IsolationMode Agent::wanted_isolation() const {
  const auto profile = profiles_.current();
  if (!profile || profile->isolation.empty()) return settings_.isolation;
  return isolation_mode(profile->isolation);
}

// Containers of an earlier process go on as it started them. Without a file it had no profiles.
void Agent::set_first_isolation() {
  if (profiles_.none()) {
    std::error_code absent;
    std::filesystem::remove(isolation_file(), absent);
    return;
  }
  const auto last = read_file(isolation_file(), kCardTextMax, "the isolation of the containers");
  if (last) {
    isolation_.set_mode(isolation_mode(*last));
  } else if (records_.bound().empty()) {
    isolation_.set_mode(wanted_isolation());
  }
  keep_isolation();
}

void Agent::keep_isolation() const {
  const auto kept = write_file(isolation_file(), label(isolation_.mode()), Durability::kMachine);
  if (!kept) log_warn("the isolation was not saved", {{"problem", kept.error().message}});
}

void Agent::switch_isolation() {
  const IsolationMode wanted = wanted_isolation();
  if (profiles_.none() || isolation_.mode() == wanted) return;
  pre_start_handler_->between_containers([&] {
    if (!records_.bound().empty()) return;
    isolation_.switch_to(wanted);
    keep_isolation();
  });
  if (isolation_.mode() == wanted) inventory_.read_soon();
}

std::string Agent::pending_isolation() const {
  const IsolationMode wanted = wanted_isolation();
  if (isolation_.mode() == wanted) return {};
  return fmt::format("isolation {} begins when no container holds a card; until then it is {}",
                     label(wanted), label(isolation_.mode()));
}

NodeProfile Agent::published_profile(const std::vector<CardFacts>& cards) const {
  NodeProfile published;
  published.parts_of_one_card = isolation_.parts_of_one_card();
  published.minimum = least_share(isolation_.chosen(), cards);
  if (settings_.minimum_memory) published.minimum.memory = *settings_.minimum_memory;
  if (profiles_.none()) return published;
  published.problem = profiles_.problem();
  if (const auto profile = profiles_.current()) {
    published.name = profile->name;
    published.policy = profile->policy;
    const Share& minimum = profile->minimum;
    published.minimum.core = std::max(published.minimum.core, minimum.core);
    if (!minimum.memory.zero()) published.minimum.memory = minimum.memory;
  }
  if (published.problem.empty()) published.problem = pending_isolation();
  published.isolation = label(isolation_.chosen());
  return published;
}

}  // namespace mgpu::plugin
