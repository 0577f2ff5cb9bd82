#include "common/http/answer.h"

#include <utility>

#include "common/base/mutex.h"

namespace mgpu::http {

namespace {

struct Promise {
  explicit Promise(std::shared_ptr<Answer> to) : answer(std::move(to)) {}
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise() { answer->give(error_response(500, "the request was given up")); }

  std::shared_ptr<Answer> answer;
};

}  // namespace

Respond Answer::respond_into(std::shared_ptr<Answer> answer) {
  auto promise = std::make_shared<Promise>(std::move(answer));
  return [promise](Response response) { promise->answer->give(std::move(response)); };
}

void Answer::give(Response response) {
  const MutexLock lock(mutex_);
  if (closed_) return;
  closed_ = true;
  response_ = std::move(response);
  if (const auto wake = std::exchange(wake_, nullptr)) wake();
}

std::optional<Response> Answer::take_or(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  if (response_) return std::exchange(response_, std::nullopt);
  wake_ = std::move(wake);
  return std::nullopt;
}

void Answer::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  wake_ = nullptr;
}

}  // namespace mgpu::http
