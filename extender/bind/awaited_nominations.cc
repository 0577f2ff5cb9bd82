#include "extender/bind/awaited_nominations.h"

#include <utility>

#include "extender/bind/limits.h"

namespace mgpu::extender {

bool AwaitedNominations::awaits(const PodUid& uid, const NodeName& node) const {
  const auto kept = pods_.facts_of(uid);
  return kept && !kept->group.empty() && kept->nominated != node;
}

void AwaitedNominations::wait(const PodUid& uid, const NodeName& node, Task go_on) {
  if (!awaits(uid, node) || waiting_.contains(uid)) return go_on();
  const auto stop = [this, uid] { waiting_.extract(uid).mapped().go_on(); };
  const auto timer = executor_.after(kNominationShownMax, callbacks_.wrap(stop));
  waiting_.emplace(uid, Waiting{node, std::move(go_on), timer});
}

void AwaitedNominations::on_shown(const PodUid& uid) {
  const auto waiting = waiting_.find(uid);
  if (waiting == waiting_.end() || awaits(uid, waiting->second.node)) return;
  executor_.cancel(waiting->second.timer);
  waiting_.extract(waiting).mapped().go_on();
}

}  // namespace mgpu::extender
