// A Prometheus whose answers a test gives, one after the other.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/kube/transport.h"
#include "test/support/manual_executor.h"

namespace mgpu::test {

class ScriptedPrometheus final : public kube::Transport {
 public:
  explicit ScriptedPrometheus(ManualExecutor& executor) : executor_(executor) {}

  void send(kube::Request request, std::function<void(kube::Response)> done) override {
    requests.push_back(std::move(request));
    open_.push_back(std::move(done));
  }
  std::unique_ptr<kube::Stream> stream(kube::Request, kube::StreamEvents) override {
    return nullptr;
  }
  Executor& executor() override { return executor_; }

  // To the first request that has no answer.
  void answer(kube::Response response) {
    executor_.post(
        [done = std::move(open_.front()), response = std::move(response)] { done(response); });
    open_.pop_front();
    executor_.run_ready();
  }
  void answer(std::string body, int status = 200) {
    kube::Response response;
    response.status = status;
    response.body = std::move(body);
    answer(std::move(response));
  }
  void fail(const std::string& why, bool too_large = false) {
    kube::Response response;
    response.failure = kube::TransportFailure{why, true, too_large};
    answer(std::move(response));
  }
  std::size_t open() const { return open_.size(); }

  std::vector<kube::Request> requests;

 private:
  ManualExecutor& executor_;
  std::deque<std::function<void(kube::Response)>> open_;
};

// An answer of Prometheus with this result.
inline std::string matrix_text(const std::string& series) {
  return R"({"status":"success","data":{"resultType":"matrix","result":[)" + series + "]}}";
}
inline std::string vector_text(const std::string& series) {
  return R"({"status":"success","data":{"resultType":"vector","result":[)" + series + "]}}";
}

}  // namespace mgpu::test
