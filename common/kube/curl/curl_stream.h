// The handle of a watch over libcurl.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "common/base/executor.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

// When it is destroyed, sets `closed` and then calls `after`.
class CurlStream final : public Stream {
 public:
  CurlStream(std::shared_ptr<std::atomic<bool>> closed, Task after)
      : closed_(std::move(closed)), after_(std::move(after)) {}
  ~CurlStream() override {
    closed_->store(true);
    after_();
  }

 private:
  std::shared_ptr<std::atomic<bool>> closed_;
  Task after_;
};

}  // namespace mgpu::kube
