// What an answer that is no success says, as the end of an error's sentence. Pure; any thread.
#pragma once

#include <string>

#include "common/kube/transport.h"

namespace mgpu::kube {

// "HTTP 409 Conflict: the server's own message", or the transport's words where nothing came back.
std::string answer_text(const Response& response);

}  // namespace mgpu::kube
