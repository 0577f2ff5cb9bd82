#include "test/support/curl_world.h"

#include <gtest/gtest.h>

#include <future>
#include <utility>

namespace mgpu::test {

CurlWorld::CurlWorld(kube::Config config) {
  auto created = kube::CurlTransport::create(std::move(config), executor_);
  EXPECT_TRUE(created) << created.error().message;
  if (created) transport_ = std::move(*created);
}

CurlWorld::~CurlWorld() {
  executor_.stop();
}

void CurlWorld::destroy_transport() {
  std::promise<void> gone;
  executor_.post([&] {
    transport_.reset();
    gone.set_value();
  });
  gone.get_future().wait();
}

kube::Config config_for(std::uint16_t port, const std::string& scheme) {
  kube::Config config;
  config.server = scheme + "://127.0.0.1:" + std::to_string(port);
  return config;
}

kube::Request get_of(std::string target) {
  kube::Request request;
  request.target = std::move(target);
  return request;
}

}  // namespace mgpu::test
