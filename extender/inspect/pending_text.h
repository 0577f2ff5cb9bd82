// Why a pod is pending, in one Event: what it needs, the most that there is, and the nearest help.
// Those who may read the Events of its namespace read it, so it names no pods of other namespaces.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "extender/inspect/views.h"

namespace mgpu::extender {

// Whether some node has room for the cards of the pod.
bool cards_fit(const Json& explained);

// What the pod needs and there is not, and what would help, which may be empty.
struct PendingAnswer {
  std::string why;
  std::string help;
  // "on n1 when pod a terminates": all ways to fit that were found.
  std::vector<std::string> ways;
};
// Makes the answer from the explanation of a pod that is not bound. The pods of other namespaces
// are counted, or with `all_names` named. `subject` is what the help is about.
PendingAnswer pending_answer(const Json& explained, bool all_names,
                             std::string_view subject = "It");

// The same in one text, not longer than an Event may be.
std::string pending_text(const Json& explained);

}  // namespace mgpu::extender
