// Where an answer that may be given on any thread meets the session that waits for it.
//
//   Open --give()--> Given --take_or()--> Taken        close(): whatever comes is dropped
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/base/mutex.h"
#include "common/http/message.h"

namespace mgpu::http {

class Answer {
 public:
  // What the handler is given; the answer is 500 when all its copies are gone unused.
  static Respond respond_into(std::shared_ptr<Answer> answer);

  // Any thread. All but the first are dropped.
  void give(Response response);
  // Empty: `wake` will be called once, on the thread that gives the answer.
  std::optional<Response> take_or(std::function<void()> wake);
  // `wake` is not running when it returns and will not be called again.
  void close();

 private:
  Mutex mutex_;
  std::optional<Response> response_ MGPU_GUARDED_BY(mutex_);
  std::function<void()> wake_ MGPU_GUARDED_BY(mutex_);
  bool closed_ MGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace mgpu::http
