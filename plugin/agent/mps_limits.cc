#include "plugin/agent/mps_limits.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "plugin/agent/node_programs.h"

namespace mgpu::plugin {

void MpsLimits::use(bool used) {
  if (used && hook_.program.empty()) {
    auto program = install_hook(options_);
    if (program) {
      hook_.program = *std::move(program);
    } else {
      // PreStart checks the daemon too, so that MPS works without the hook.
      log_warn("a container that kubelet starts without the plugin may run outside of MPS",
               {{"problem", program.error().message}});
    }
  }
  const MutexLock lock(mutex_);
  used_ = used;
  // Its daemons restore no modes, because follow_modes() does, for healthy cards only.
  if (used && !mps_) mps_ = std::make_unique<Mps>(options_.mps);
  exclusive_.enable(used && options_.mps_exclusive);
  // Before the first read no card is known, and the daemons of all would be drained.
  if (mps_ && !cards_.empty()) mps_->set_cards(used ? cards_ : std::vector<CardUuid>());
}

void MpsLimits::set_cards(const std::vector<CardUuid>& cards) {
  const MutexLock lock(mutex_);
  cards_ = cards;
  if (used_) mps_->set_cards(cards);
}

const Mps* MpsLimits::daemons() const {
  const MutexLock lock(mutex_);
  MGPU_DEBUG_CHECK(!used_ || mps_ != nullptr, "MPS that is used was made");
  return used_ ? mps_.get() : nullptr;
}

const LimitHook* MpsLimits::hook() const {
  return daemons() != nullptr && !hook_.program.empty() ? &hook_ : nullptr;
}

std::vector<MpsState> MpsLimits::states() const {
  const Mps* const running = daemons();
  return running != nullptr ? running->states() : std::vector<MpsState>();
}

std::string MpsLimits::problem_of(const FoundCard& card) {
  const Mps* const running = daemons();
  std::string problem = running != nullptr ? running->problem_of(card) : "";
  return problem.empty() ? exclusive_.problem_of(card.uuid) : problem;
}

void MpsLimits::follow_modes(const std::vector<FoundCard>& found, bool released) {
  const auto daemon_responds = [running = daemons()](const CardUuid& card) {
    return running != nullptr && running->ready(card);
  };
  exclusive_.follow({.cards = found, .daemon_responds = daemon_responds, .released = released});
}

void MpsLimits::keep_shares() const {
  const Mps* const running = daemons();
  if (running != nullptr) running->keep_shares([this] { return records_.all(); });
}

}  // namespace mgpu::plugin
