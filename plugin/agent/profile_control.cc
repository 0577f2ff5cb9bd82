#include "plugin/agent/profile_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/contract/limits.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

std::string limits_text(IsolationMode mode, ComputeMode compute) {
  const bool is_all = compute == ComputeMode::kNone || mode == IsolationMode::kMps;
  return is_all ? std::string(to_string(mode))
                : fmt::format("{} with {}", to_string(mode), to_string(compute));
}

}  // namespace

using kube::Event;

MiB default_reserve(ComputeMode compute) {
  constexpr MiB kForMps{512};
  return compute == ComputeMode::kMps ? kForMps : MiB();
}

Share least_share(IsolationMode chosen, ComputeMode compute, const std::vector<CardFacts>& cards) {
  // The context of a CUDA program takes 300 to 600 MiB of it.
  constexpr MiB kMemory{1024};
  Share least;
  if (chosen != IsolationMode::kNone) least.memory = kMemory;
  for (const CardFacts& card : cards) {
    if (compute != ComputeMode::kMps) break;
    const std::int64_t core = (card.core.value() + kMpsClientsMax - 1) / kMpsClientsMax;
    least.core = std::max(least.core, Percent(core));
  }
  return least;
}

ProfileControl::ProfileControl(Options options, Dependencies dependencies)
    : options_(std::move(options)),
      dependencies_(std::move(dependencies)),
      isolation_file_(options_.state_folder + "/isolation"),
      compute_file_(options_.state_folder + "/compute"),
      profiles_(options_.profiles, options_.label, options_.state_folder + "/profile") {}

bool ProfileControl::choose_first() {
  if (profiles_.none() || profiles_.restore()) return true;
  const auto labels = dependencies_.publisher.labels();
  if (!labels) return false;
  if (profiles_.choose(*labels)) report();
  return true;
}

void ProfileControl::apply(std::vector<FoundCard>& cards) {
  if (profiles_.none()) return;
  if (const auto labels = dependencies_.publisher.labels(); labels && profiles_.choose(*labels)) {
    report();
    dependencies_.on_changed();
  }
  const Profile profile = profiles_.current().value_or(Profile{.name = ""});
  // Until the last container has ended, what it has is reserved, too.
  const MiB needed = std::max(default_reserve(dependencies_.isolation.wanted_compute()),
                              default_reserve(wanted_compute()));
  const MiB of_options = options_.reserve.value_or(needed);
  apply_profile(profile, profile.reserve.value_or(of_options), cards);
}

void ProfileControl::report() const {
  if (const std::string problem = profiles_.problem(); !problem.empty()) {
    log_warn("the labels of the node choose no profile, and the last one stays",
             {{"problem", problem}});
    dependencies_.events.on_node({Event::Type::kWarning, "MGPUProfileUnknown", problem});
    return;
  }
  const auto profile = profiles_.current();
  const std::string message = profile ? "the node follows the profile " + profile->name
                                      : "the node follows no profile, and has the settings of the "
                                        "flags";
  log_info("profile applied", {{"profile", profile ? profile->name : ""}});
  dependencies_.events.on_node({Event::Type::kNormal, "MGPUProfile", message});
}

// --- isolation -----------------------------------------------------------------------------------

IsolationMode ProfileControl::wanted_isolation() const {
  const auto profile = profiles_.current();
  if (!profile || profile->isolation.empty()) return options_.isolation;
  return isolation_mode(profile->isolation);
}

bool ProfileControl::is_wanted() const {
  const Isolation& isolation = dependencies_.isolation;
  return isolation.mode() == wanted_isolation() && isolation.wanted_compute() == wanted_compute();
}

// Containers of an earlier process go on as it started them. Without a file it had no profiles, and
// earlier versions did not write what limits compute.
void ProfileControl::set_first_isolation() {
  if (profiles_.none()) {
    std::error_code absent;
    std::filesystem::remove(isolation_file_, absent);
    std::filesystem::remove(compute_file_, absent);
    return;
  }
  const auto last = read_file(isolation_file_, kCardTextMax, "the isolation of the containers");
  if (last) {
    const auto compute = read_file(compute_file_, kCardTextMax, "the compute of the containers");
    dependencies_.isolation.set_modes(isolation_mode(*last),
                                      compute ? compute_mode(*compute) : options_.compute);
  } else if (dependencies_.records.bound().empty()) {
    dependencies_.isolation.set_modes(wanted_isolation(), options_.compute);
  }
  keep_isolation();
}

void ProfileControl::keep_isolation() const {
  const Isolation& isolation = dependencies_.isolation;
  // Two files: earlier versions read the first one as a whole.
  auto kept = write_file(isolation_file_, to_string(isolation.mode()), Durability::kMachine);
  if (kept)
    kept = write_file(compute_file_, to_string(isolation.wanted_compute()), Durability::kMachine);
  if (!kept) log_warn("the isolation was not saved", {{"problem", kept.error().message}});
}

bool ProfileControl::switch_isolation(PreStartHandler& handler) {
  if (profiles_.none() || is_wanted()) return false;
  handler.between_containers([&] {
    if (!dependencies_.records.bound().empty()) return;
    dependencies_.isolation.switch_to(wanted_isolation(), options_.compute);
    keep_isolation();
  });
  return is_wanted();
}

std::string ProfileControl::pending_isolation() const {
  const Isolation& isolation = dependencies_.isolation;
  if (is_wanted()) return {};
  return fmt::format("isolation {} begins when no container holds a card; until then it is {}",
                     limits_text(wanted_isolation(), wanted_compute()),
                     limits_text(isolation.mode(), isolation.wanted_compute()));
}

NodeProfile ProfileControl::published(const std::vector<CardFacts>& cards) const {
  NodeProfile published;
  published.parts_of_one_card = dependencies_.isolation.parts_of_one_card();
  const Isolation& isolation = dependencies_.isolation;
  published.minimum = least_share(isolation.chosen(), isolation.compute(), cards);
  if (options_.minimum_memory) published.minimum.memory = *options_.minimum_memory;
  published.isolation = to_string(isolation.chosen());
  if (isolation.compute() != ComputeMode::kNone) published.compute = to_string(isolation.compute());
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
  return published;
}

}  // namespace mgpu::plugin
