// Launches of kernels and graphs where the compute of a card is shared out by turns (turn_page.h).
// A launch waits while it is another container's turn. A thread of this library finds out when the
// work of this process is done, by events behind it.
#pragma once

#include "plugin/share/cards.h"

namespace mgpu::share {

// Whether launches of any card are held back at times.
bool any_turns();

// Finds the turns of a card, when its account is attached. Null without a failure: it has none.
Failure attach_turns(unsigned card, const char* folder, const std::uint8_t (&uuid)[16],
                     unsigned slot);
// Forgets the launches of the parent in a forked child.
void forget_launches();

// A launch on the current card, before and after the driver's call. A stream that is captured
// launches nothing.
class Launch {
 public:
  // May wait. `per_thread`: of the driver's functions whose default stream is that of the thread.
  Launch(Handle stream, bool per_thread);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  Launch(Launch&&) = delete;
  Launch& operator=(Launch&&) = delete;

 private:
  Handle stream_;
  bool per_thread_;
  unsigned card_ = kCardsMax;  // none
  std::uint64_t key_ = 0;
};

template <class Call>
Result launch_in_turn(Handle stream, bool per_thread, Call call) {
  if (!any_turns()) return call();
  const Launch launch(stream, per_thread);
  return call();
}

// The driver is about to destroy it.
void end_launches_of_context(Handle context);

}  // namespace mgpu::share
