// A watch of the in-memory API server as the body of an HTTP response.
#pragma once

#include "common/http/message.h"
#include "common/kube/memory/api_server.h"

namespace mgpu::bench {

// `server` outlives the body.
void respond_with_watch(kube::MemoryApiServer& server, kube::Request request,
                        const http::Respond& respond);

}  // namespace mgpu::bench
