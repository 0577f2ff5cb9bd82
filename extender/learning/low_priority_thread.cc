#include "extender/learning/low_priority_thread.h"

#include <sys/resource.h>
#include <unistd.h>

namespace mgpu::extender {
namespace {

constexpr int kNice = 15;

}  // namespace

LowPriorityThread::~LowPriorityThread() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LowPriorityThread::run(const std::function<void()>& computation) {
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  MutexLock lock(mutex_);
  computation_ = &computation;
  changed_.notify_all();
  changed_.wait(lock, [this]() MGPU_REQUIRES(mutex_) { return computation_ == nullptr; });
}

void LowPriorityThread::loop() {
  // Where this is not permitted, the thread keeps the priority of the others.
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice);
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [this]() MGPU_REQUIRES(mutex_) { return ending_ || computation_ != nullptr; });
    if (computation_ == nullptr) return;
    const std::function<void()>& computation = *computation_;
    lock.unlock();
    computation();
    lock.lock();
    computation_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace mgpu::extender
