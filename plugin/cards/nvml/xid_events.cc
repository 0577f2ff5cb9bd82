#include "plugin/cards/nvml/xid_events.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin::nvml {

void XidEvents::open(const Library& library) {
  MGPU_DEBUG_CHECK(set_ == nullptr, "a set of events is opened once");
  const Functions& f = library.functions();
  reads_while_closed_ = 0;
  if (!f.has_events() || f.event_set_create(&set_) != kOk) set_ = nullptr;
}

void XidEvents::close(const Library& library) {
  if (set_ != nullptr) library.functions().event_set_free(std::exchange(set_, nullptr));
  registered_.clear();
}

// If it fails again and again, the driver is not asked at every read.
void XidEvents::reopen_if_due(const Library& library) {
  const int reads = failed_waits_ == 1 ? 1 : kNvmlReopenReads;
  if (set_ == nullptr && ++reads_while_closed_ >= reads) open(library);
}

void XidEvents::add(const Library& library, const CardUuid& card, Device device) {
  if (set_ == nullptr || registered_.contains(card)) return;
  const Functions& f = library.functions();
  unsigned long long supported = 0;
  if (f.event_types(device, &supported) != kOk) return;
  supported &= kEventXid | kEventGpuUnavailable | kEventRecoveryAction;
  if (supported == 0) return;
  if (f.register_events(device, supported, set_) == kOk) registered_.insert(card);
}

std::optional<bool> XidEvents::wait(const Library& library,
                                    const std::function<bool(const Event&)>& note) {
  if (set_ == nullptr || registered_.empty()) return std::nullopt;
  auto timeout = static_cast<unsigned>(kXidWait.count());
  bool changed = false;
  for (int i = 0; i < kXidsAtOnceMax; ++i) {
    Event event{};
    const int code = library.functions().event_set_wait(set_, &event, timeout);
    timeout = 0;
    if (code == kTimeout || code == kOk) failed_waits_ = 0;
    if (code == kTimeout) return changed;
    if (code != kOk) {
      ++failed_waits_;
      log_warn("NVML cannot wait for XIDs", {{"error", library.describe(code)}});
      close(library);
      return true;
    }
    changed = note(event) || changed;
  }
  return changed;
}

}  // namespace mgpu::plugin::nvml
