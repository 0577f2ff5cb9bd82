// The XIDs that NVML reports as events: the event set on which the session waits, and the cards
// whose events arrive there. The session owns it, passes the library that is open now to each call,
// and calls it on its own thread only.
//
//   Closed --open(), reopen_if_due()--> Open --close(), failed wait--> Closed
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "common/base/ids.h"
#include "plugin/cards/nvml/nvml_library.h"

namespace mgpu::plugin::nvml {

class XidEvents {
 public:
  // Opens the set, and begins to count the reads after which reopen_if_due() tries it again. It
  // stays closed if the driver has no events, or does not make the set. REQUIRES: it is closed.
  void open(const Library& library);
  void close(const Library& library);
  // Opens the set again if it is due. Once in each read of the cards.
  void reopen_if_due(const Library& library);
  // Registers the events of a card unless they are registered.
  void add(const Library& library, const CardUuid& card, Device device);
  // The card has another handle, whose events are not registered.
  void forget(const CardUuid& card) { registered_.erase(card); }
  // Waits for at most `kXidWait`. Returns whether `note` was true for an event, or the wait failed;
  // none if the set is closed, or no card has events.
  std::optional<bool> wait(const Library& library, const std::function<bool(const Event&)>& note);

 private:
  EventSet set_ = nullptr;  // null: closed
  std::set<CardUuid> registered_;
  int reads_while_closed_ = 0;
  int failed_waits_ = 0;  // in a row
};

}  // namespace mgpu::plugin::nvml
