#include "plugin/agent/call.h"

#include <future>
#include <memory>
#include <utility>

namespace mgpu::plugin {

kube::Response send_and_wait(kube::Transport& transport, kube::Request request, Duration timeout) {
  request.timeout = timeout;
  // Shared with the callback, which may run after this function has returned.
  auto promise = std::make_shared<std::promise<kube::Response>>();
  auto future = promise->get_future();
  transport.send(std::move(request),
                 [promise](kube::Response response) { promise->set_value(std::move(response)); });
  if (future.wait_for(timeout + std::chrono::seconds(1)) == std::future_status::ready) {
    return future.get();
  }
  kube::Response none;
  none.failure = kube::TransportFailure{"no answer", true};
  return none;
}

}  // namespace mgpu::plugin
