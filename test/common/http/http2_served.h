// A server with HTTP/2, its clients, and handlers that respond when a test says so.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/http/limits.h"
#include "test/common/http/served.h"
#include "test/support/certificates.h"
#include "test/support/http2_client.h"

namespace mgpu::http {

using namespace std::chrono_literals;

class ServerHttp2 : public testing::Test {
 protected:
  ServerOptions options() const {
    ServerOptions out;
    out.tls = {.certificate_file = server.certificate, .key_file = server.key, .http2 = true};
    return out;
  }
  test::RawTls trusting(const std::string& protocols) const {
    return {.ca_file = ca.certificate, .protocols = protocols};
  }
  test::Http2Client connect(const Served& served) const {
    return test::Http2Client(served.connect(trusting("h2")));
  }

  test::Certificates certificates;
  test::CertificateFiles ca = certificates.authority("ca");
  test::CertificateFiles server = certificates.issue("server", ca);
};

// A handler whose responses are sent by the test.
class Held {
 public:
  Handler handler() {
    return [this](const Request& request, Respond respond) {
      const std::lock_guard lock(mutex_);
      arrived_[request.path] = std::move(respond);
      more_.notify_all();
    };
  }
  // Waits for the request.
  Respond next(const std::string& path) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(more_.wait_for(lock, test::kRawWait, [&] { return arrived_.contains(path); }));
    Respond respond = std::move(arrived_[path]);
    arrived_.erase(path);
    return respond;
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::map<std::string, Respond> arrived_;
};

// A handler that responds with a body in parts, which the test gives.
class Parts {
 public:
  Handler handler() {
    return [this](const Request&, const Respond& respond) {
      const std::shared_ptr<void> alive(nullptr, [this](void*) {
        const std::lock_guard lock(mutex_);
        destroyed_ = true;
        give_ = nullptr;
        changed_.notify_all();
      });
      respond({.next_part = [this, alive](GivePart give) {
        const std::lock_guard lock(mutex_);
        give_ = std::move(give);
        changed_.notify_all();
      }});
    };
  }
  void give(std::string part) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, test::kRawWait, [&] { return give_ != nullptr; }));
    std::exchange(give_, nullptr)(std::move(part));
  }
  bool is_asked_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return give_ != nullptr; });
  }
  // Waits for it, once for each body.
  bool is_destroyed() {
    std::unique_lock lock(mutex_);
    const bool yes = changed_.wait_for(lock, test::kRawWait, [&] { return destroyed_; });
    destroyed_ = false;
    return yes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  GivePart give_;
  bool destroyed_ = false;
};

}  // namespace mgpu::http
