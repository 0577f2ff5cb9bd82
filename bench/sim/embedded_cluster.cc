#include "bench/sim/embedded_cluster.h"

#include <chrono>
#include <thread>
#include <utility>

#include "bench/sim/calls.h"

namespace mgpu::sim {
namespace {

constexpr int kReadyPolls = 500;
constexpr std::chrono::milliseconds kReadyPollInterval{20};

}  // namespace

EmbeddedCluster::EmbeddedCluster() : api_server_(cluster_executor_, {}) {}

EmbeddedCluster::~EmbeddedCluster() {
  extender_.reset();
  client_executor_.stop();
  cluster_executor_.stop();
}

Result<void> EmbeddedCluster::start(extender::Settings settings, std::uint16_t port) {
  extender::ExtenderSettings extender{
      .verbs = std::move(settings), .http = {}, .url_prefix = kUrlPrefix, .requeue_namespace = {}};
  extender.http.address = "127.0.0.1";
  extender.http.port = port;
  auto started = extender::Extender::start(std::move(extender), api_server_);
  if (!started) return started.error();
  extender_ = std::move(*started);
  kube::Config config;
  config.server = "http://127.0.0.1:" + std::to_string(extender_->port());
  auto client = kube::CurlTransport::create(std::move(config), client_executor_);
  if (!client) return client.error();
  client_ = std::move(*client);
  return wait_ready();
}

Result<void> EmbeddedCluster::wait_ready() {
  for (int i = 0; i < kReadyPolls; ++i) {
    if (call(*client_, get("/readyz")).ok()) return {};
    std::this_thread::sleep_for(kReadyPollInterval);
  }
  return error("the extender did not become ready");
}

}  // namespace mgpu::sim
