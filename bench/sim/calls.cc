#include "bench/sim/calls.h"

#include <future>
#include <memory>
#include <utility>

namespace mgpu::sim {

kube::Response call(kube::Transport& transport, kube::Request request) {
  auto answered = std::make_shared<std::promise<kube::Response>>();
  auto answer = answered->get_future();
  transport.send(std::move(request),
                 [answered](kube::Response response) { answered->set_value(std::move(response)); });
  return answer.get();
}

kube::Request get(const std::string& target) {
  kube::Request request;
  request.target = target;
  return request;
}

kube::Request post_json(const std::string& target, std::string body) {
  kube::Request request;
  request.method = kube::Method::kPost;
  request.target = target;
  request.body = std::move(body);
  request.content_type = "application/json";
  return request;
}

Result<std::string> body_of(const kube::Request& request, const kube::Response& response) {
  if (response.failure) return error(request.target + ": " + response.failure->message);
  if (!response.ok())
    return error(request.target + ": HTTP " + std::to_string(response.status) + ": " +
                 response.body.substr(0, 200));
  return response.body;
}

}  // namespace mgpu::sim
