#include "plugin/agent/isolation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace mgpu::plugin {
namespace {

std::optional<TurnRule> turn_rule(ComputeMode compute) {
  if (compute == ComputeMode::kBurst) return TurnRule::kBurst;
  if (compute == ComputeMode::kFixed) return TurnRule::kFixed;
  return std::nullopt;
}

Result<void> set_up_library(LibraryLimits& library, const std::vector<CardFacts>& cards) {
  const auto lacks_pages = [](const CardFacts& card) { return !can_have_pages(card.uuid); };
  // Cards may appear later, and each of them is judged then.
  if (!cards.empty() && std::ranges::all_of(cards, lacks_pages)) {
    return error("no card has a UUID of NVML");
  }
  return library.set_up();
}

}  // namespace

Isolation::Isolation(IsolationOptions options, const Records& records,
                     std::function<std::vector<CardFacts>()> cards)
    : options_(std::move(options)),
      cards_of_node_(std::move(cards)),
      mode_(options_.mode),
      compute_(options_.compute),
      driver_(options_, records),
      library_(options_, records),
      mps_(options_, records) {}

// --- the choice ----------------------------------------------------------------------------------

void Isolation::prepare() {
  if (mode_ == IsolationMode::kAuto) return;
  // What cannot be set up is a problem of each card.
  if (mode_ == IsolationMode::kDriver) static_cast<void>(driver_.set_up());
  if (mode_ == IsolationMode::kIntercept) static_cast<void>(library_.set_up());
  settle(mode_, "--isolation");
}

void Isolation::switch_to(IsolationMode mode, ComputeMode compute) {
  set_modes(mode, compute);
  prepare();
  choose();
}

void Isolation::choose() {
  if (mode_ != IsolationMode::kAuto) return;
  std::string problem = driver_.problem_of_all(cards_of_node_());
  if (problem.empty()) {
    const auto set_up = driver_.set_up();
    if (set_up) return settle(IsolationMode::kDriver, "the driver limits the memory of cgroups");
    problem = set_up.error().message;
    log_warn("the driver limits memory, but its hook cannot be installed", {{"problem", problem}});
  }
  const auto library = set_up_library(library_, cards_of_node_());
  if (!library) problem += "; nor can it use the library: " + library.error().message;
  const IsolationMode mode = library ? IsolationMode::kIntercept : IsolationMode::kNone;
  settle(mode, problem);
  const MutexLock lock(mutex_);
  fallback_ = fmt::format("--isolation=auto is {}, because {}", to_string(mode), problem);
}

void Isolation::settle(IsolationMode mode, const std::string& reason) {
  MGPU_DEBUG_CHECK(mode != IsolationMode::kAuto, "what is chosen is never auto");
  const ComputeMode compute = compute_with(mode, compute_);
  log_info("isolation of shares", {{"isolation", std::string(to_string(mode))},
                                   {"compute", std::string(to_string(compute))},
                                   {"reason", reason}});
  mps_.use(compute == ComputeMode::kMps);
  library_.set_turns(turn_rule(compute));
  const MutexLock lock(mutex_);
  fallback_.clear();
  chosen_ = mode;
}

std::string Isolation::fallback() const {
  const MutexLock lock(mutex_);
  return fallback_;
}

void Isolation::stop() {
  library_.self_tests().stop();
  driver_.stop();
}

// --- cards and containers ------------------------------------------------------------------------

std::string Isolation::problem_of(const FoundCard& card, const Edits& shared) {
  const bool mig = card.uuid.str().starts_with("MIG-");
  if (mig && compute() == ComputeMode::kMps) {
    return "is a MIG device, whose parts MPS cannot limit";
  }
  if (mig && chosen_ == IsolationMode::kDriver) {
    return "is a MIG device, whose parts --isolation=driver cannot limit";
  }
  std::string problem;
  if (chosen_ == IsolationMode::kIntercept) problem = library_.problem_of(card, shared);
  if (chosen_ == IsolationMode::kDriver) problem = driver_.problem_of(card.uuid);
  return problem.empty() ? mps_.problem_of(card) : problem;
}

std::map<CardUuid, SelfTest> Isolation::self_tests() {
  if (chosen_ != IsolationMode::kIntercept) return {};
  return library_.self_tests().results();
}

ShareLimits Isolation::limits() const {
  return {.mps = mps_.daemons(),
          .mps_hook = mps_.hook(),
          .driver_hook = chosen_ == IsolationMode::kDriver ? &driver_.hook() : nullptr,
          .library = chosen_ == IsolationMode::kIntercept ? &library_.files() : nullptr};
}

bool Isolation::parts_of_one_card() const {
  return compute() == ComputeMode::kMps && !options_.mps_parts_without_limits;
}

Result<void> Isolation::before_start(const Record& record) {
  if (parts_of_one_card() && has_parts_of_several_cards(record)) {
    return error(
        "MPS cannot limit parts of several cards, so that the container does not start; let it "
        "request whole cards, or a part of one card");
  }
  const Mps* const daemons = mps_.daemons();
  if (daemons != nullptr && is_part_of_one_card(record)) {
    if (auto ready = daemons->prepare(record); !ready) return ready;
  }
  if (chosen_ == IsolationMode::kIntercept) {
    if (auto ready = library_.prepare(record); !ready) return ready;
  }
  return mps_.exclusive().before_start(record);
}

void Isolation::on_removed(const AllocationId& id) {
  driver_.clear(id);
  library_.pages().remove(id);
}

}  // namespace mgpu::plugin
