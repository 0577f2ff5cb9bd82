#include "extender/inspect/inspections.h"

#include <utility>

#include "extender/inspect/limits.h"

namespace mgpu::extender {

Inspections::~Inspections() {
  ending_ = true;
  tasks_.close();
}

Inspections::Slot Inspections::reserve() {
  if (taken_->fetch_add(1) >= kInspectionsMax) {
    taken_->fetch_sub(1);
    return nullptr;
  }
  return {taken_.get(), [taken = taken_](void*) { taken->fetch_sub(1); }};
}

void Inspections::run(Slot slot, std::function<void()> inspect) {
  executor_.post(
      tasks_.wrap([slot = std::move(slot), inspect = std::move(inspect)] { inspect(); }));
}

}  // namespace mgpu::extender
