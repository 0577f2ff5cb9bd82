// The production Executor: a thread that runs a Boost.Asio io_context.
#pragma once

#include <memory>

#include "common/base/executor.h"

namespace boost::asio {
class io_context;
}

namespace mgpu {

class AsioExecutor final : public Executor {
 public:
  AsioExecutor();
  // Stops and joins the thread. REQUIRES: not called from a task of this executor.
  ~AsioExecutor() override;

  Instant now() const override;
  void post(Task task) override;
  TimerId after(Duration delay, Task task) override;
  void cancel(TimerId id) override;
  double random() override;

  // Ends the thread after the task that it is running. Idempotent.
  void stop();

  // For I/O on the same thread.
  boost::asio::io_context& context();

 private:
  struct State;

  TimerId queue(Task task);

  std::unique_ptr<State> state_;
};

}  // namespace mgpu
