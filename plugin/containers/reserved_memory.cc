#include "plugin/containers/reserved_memory.h"

#include <algorithm>
#include <utility>

namespace mgpu::plugin {

void ReservedMemory::read() {
  Reading reading;
  for (const Record& record : records_.bound()) {
    auto of_cards = pages_.reserved(record);
    if (!of_cards.empty()) reading.emplace(record.id, std::move(of_cards));
  }
  const MutexLock lock(mutex_);
  readings_ = {std::move(reading), std::move(readings_[0])};
}

ReservedMemory::OfCards ReservedMemory::most(const AllocationId& id) const {
  OfCards most;
  const MutexLock lock(mutex_);
  for (const Reading& reading : readings_) {
    const auto at = reading.find(id);
    if (at == reading.end()) continue;
    for (const auto& [card, memory] : at->second) {
      const auto [to, is_new] = most.emplace(card, memory);
      to->second = std::max(to->second, memory);
    }
  }
  return most;
}

}  // namespace mgpu::plugin
