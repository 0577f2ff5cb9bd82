// A watch of the in-memory API server as the body of an HTTP response.
#pragma once

#include "bench/apiserver/api_server.h"
#include "common/http/message.h"

namespace mgpu::bench {

// `server` outlives the body.
void respond_with_watch(kube::MemoryApiServer& server, kube::Request request,
                        const http::Respond& respond);

}  // namespace mgpu::bench
