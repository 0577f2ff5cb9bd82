#include "plugin/agent/driver_limits.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "plugin/agent/node_programs.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

// The cgroups of containers must be visible below the root of the node's hierarchy.
Result<void> check_cgroups(const std::string& proc_folder) {
  const auto text = read_file(proc_folder + "/1/cgroup", kProcFileBytesMax);
  if (!text) return {};
  const auto path = cgroup_v2_path(*text);
  return path ? Result<void>() : error("the limits of the driver: " + path.error().message);
}

}  // namespace

// A card that fails now may work later, and is not offered until then. Only where no card works the
// driver may not be able to limit memory at all, unless it did before. Unhealthy cards may hang.
std::string DriverLimits::problem_of_all(std::vector<CardFacts> cards) {
  if (const auto available = limits_.available(); !available) return available.error().message;
  if (std::ranges::any_of(cards, &CardFacts::healthy))
    std::erase_if(cards, [](const CardFacts& card) { return !card.healthy(); });
  std::string problem;
  for (const CardFacts& card : cards) {
    problem = check(card.uuid);
    if (problem.empty()) return "";
  }
  std::error_code unreadable;
  return std::filesystem::exists(worked_file_, unreadable) ? "" : problem;
}

Result<void> DriverLimits::set_up() {
  auto served = server_ ? Result<void>() : serve_hook();
  MutexLock lock(mutex_);
  hook_.problem = served ? "" : served.error().message;
  const bool worked = !limitable_.empty();
  lock.unlock();
  if (served && worked) note_worked();
  return served;
}

Result<void> DriverLimits::serve_hook() {
  if (auto visible = check_cgroups(options_.proc_folder); !visible) return visible;
  auto program = install_hook(options_);
  if (!program) return program.error();
  hook_.socket = options_.run_folder + "/limits.sock";
  const auto set_limits = [this](const AllocationId& id, std::int64_t pid) {
    auto set = setter_.set(id, pid);
    if (set) return set;
    // All cards are checked again, so that those without limits are not offered.
    const MutexLock lock(mutex_);
    limitable_.clear();
    noted_ = false;
    return set;
  };
  auto server = LimitServer::start(hook_.socket, set_limits);
  if (!server) return server.error();
  hook_.program = *std::move(program);
  server_ = *std::move(server);
  return {};
}

std::string DriverLimits::problem_of(const CardUuid& card) {
  MutexLock lock(mutex_);
  std::string problem = hook_.problem;
  lock.unlock();
  if (problem.empty()) problem = check(card);
  if (problem.empty()) note_worked();
  lock.lock();
  std::string& logged = logged_[card];
  if (problem != logged && !problem.empty()) {
    log_warn("the driver cannot limit the memory of containers, and the card is not offered",
             {{"card", card.str()}, {"problem", problem}});
  }
  logged = problem;
  return problem;
}

// A card whose limits worked is not checked again: from then on the start of each container reads
// its limits back.
std::string DriverLimits::check(const CardUuid& card) {
  {
    const MutexLock lock(mutex_);
    if (limitable_.contains(card)) return "";
  }
  const auto works = limits_.check(card);
  if (!works) return works.error().message;
  const MutexLock lock(mutex_);
  limitable_.insert(card);
  return "";
}

void DriverLimits::note_worked() {
  if (noted_.exchange(true)) return;
  if (!write_file(worked_file_, "", Durability::kProcess)) noted_ = false;
}

}  // namespace mgpu::plugin
