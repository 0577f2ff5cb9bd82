// A call of the API server by a thread that waits for the answer.
#pragma once

#include "common/kube/transport.h"

namespace mgpu::plugin {

// REQUIRES: not on the transport's executor.
kube::Response send_and_wait(kube::Transport& transport, kube::Request request, Duration timeout);

}  // namespace mgpu::plugin
