#include "extender/bind/holder_lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "extender/bind/limits.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

}  // namespace

HolderLease::HolderLease(kube::Client& client, kube::ObjectRef lease, std::string identity,
                         std::function<void(const std::string&)> on_lost,
                         std::function<void(Done)> acquire)
    : client_(client),
      lease_(std::move(lease)),
      identity_(std::move(identity)),
      on_lost_(std::move(on_lost)),
      acquire_(std::move(acquire)) {}

void HolderLease::take(Done done) {
  if (acquire_) return acquire_(std::move(done));
  const auto on_read = [this, done = std::move(done)](const kube::ApiResult<kube::Lease>& read) {
    if (!read && read.error().kind != Kind::kNotFound) return done(read.error());
    // Without the times of an earlier holder: this process does not renew the Lease.
    kube::Lease mine;
    mine.ref = lease_;
    mine.holder = identity_;
    if (read) mine.resource_version = read->resource_version;
    kube::Request request = kube::write_lease(mine);
    request.timeout = kBindTimeout;
    client_.write(std::move(request), "take lease " + name(), callbacks_.wrap(done));
  };
  client_.get_lease(lease_, kBindTimeout, callbacks_.wrap(on_read));
}

void HolderLease::confirm(Done done) {
  if (reads_ > 0 || read_is_due_) overlapped_at_ = client_.executor().now();
  waiting_.push_back(std::move(done));
  if (calls_overlap()) return read_later();
  read();
}

bool HolderLease::calls_overlap() const {
  return overlapped_at_ && client_.executor().now() - *overlapped_at_ < kLeaseOverlapTime;
}

void HolderLease::read() {
  ++reads_;
  MGPU_CHECK(!waiting_.empty(), "a read has somebody who waits for it");
  read_at_ = client_.executor().now();
  client_.get_lease(lease_, kBindTimeout,
                    callbacks_.wrap([this, group = std::exchange(waiting_, {})](
                                        const kube::ApiResult<kube::Lease>& read) {
                      MGPU_CHECK(reads_ > 0, "a read that was started ends");
                      --reads_;
                      const kube::ApiResult<void> held = examine(read);
                      // Called after this read had begun, whose answer may be older.
                      if (!waiting_.empty()) read_later();
                      for (const Done& done : group) done(held);
                    }));
}

void HolderLease::read_later() {
  if (read_is_due_ || reads_ >= kLeaseReadsInFlight) return;
  read_is_due_ = true;
  const Duration passed = client_.executor().now() - read_at_;
  const Duration left = std::max(Duration(0), Duration(kLeaseReadInterval) - passed);
  client_.executor().after(left, callbacks_.wrap([this] {
    read_is_due_ = false;
    read();
  }));
}

kube::ApiResult<void> HolderLease::examine(const kube::ApiResult<kube::Lease>& read) {
  if (!read && read.error().kind == Kind::kNotFound) return lose("it was deleted");
  if (!read) return read.error();
  if (read->holder == identity_ && !lost_) return {};
  return lose("its holder is " + in_quotes(read->holder));
}

kube::ApiResult<void> HolderLease::lose(const std::string& found) {
  std::string sentence =
      fmt::format("this process no longer holds the lease {}: {}; it binds no more pods and ends",
                  name(), found);
  if (!lost_.exchange(true)) on_lost_(sentence);
  return kube::ApiError{Kind::kRefused, std::move(sentence)};
}

}  // namespace mgpu::extender
