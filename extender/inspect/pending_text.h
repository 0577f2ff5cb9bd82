// Why a pod is pending, in one Event: what it needs, the most that there is, and the nearest help.
// Those who may read the Events of its namespace read it, so it names no pods of other namespaces.
#pragma once

#include <string>

#include "extender/inspect/views.h"

namespace mgpu::extender {

// Whether some node has room for the cards of the pod.
bool cards_fit(const Json& explained);

// Of an explanation of a pod that is not bound. Not longer than an Event may be.
std::string pending_text(const Json& explained);

}  // namespace mgpu::extender
