// A call of the API server by a thread that waits for the answer.
#pragma once

#include "common/kube/transport.h"

namespace mgpu::plugin {

// Sends `request` and waits, at most one second longer than `timeout`. Returns a Response with
// `failure` if there is no answer. REQUIRES: not on the transport's executor.
kube::Response send_and_wait(kube::Transport& transport, kube::Request request, Duration timeout);

}  // namespace mgpu::plugin
