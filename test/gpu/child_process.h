// A child of a test that does something with a machine, and is told when to go on.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <utility>

namespace mgpu::fake_gpu {

class ChildProcess {
 public:
  // For the child: tells the test that it has come this far, and waits until it is told to go on.
  using Pause = std::function<void()>;

  // Runs in a fork; the child ends with 1 if an expectation of it fails.
  explicit ChildProcess(const std::function<void(const Pause&)>& run) {
    int to_test[2] = {-1, -1};
    int to_child[2] = {-1, -1};
    EXPECT_EQ(::pipe(to_test), 0);
    EXPECT_EQ(::pipe(to_child), 0);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(to_test[0]);
      ::close(to_child[1]);
      char byte = '.';
      run([&] {
        if (::write(to_test[1], &byte, 1) != 1 || ::read(to_child[0], &byte, 1) != 1) ::_exit(2);
      });
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(to_test[1]);
    ::close(to_child[0]);
    from_child_ = to_test[0];
    to_child_ = to_child[1];
  }
  ~ChildProcess() {
    if (pid_ > 0) kill();
    ::close(from_child_);
    ::close(to_child_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Returns once the child pauses; false if it has ended.
  bool wait_for_pause() {
    char byte = 0;
    return ::read(from_child_, &byte, 1) == 1;
  }
  void go_on() { EXPECT_EQ(::write(to_child_, ".", 1), 1); }
  // Its exit status; negative if a signal has ended it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
  int to_child_ = -1;
};

// Runs something in a process of its own, so that it can load a driver; expects that it succeeds.
inline void in_process(const std::function<void()>& run) {
  ChildProcess child([&](const ChildProcess::Pause&) { run(); });
  EXPECT_EQ(child.wait(), 0) << "see the failures above";
}

}  // namespace mgpu::fake_gpu
