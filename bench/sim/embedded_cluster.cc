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

Result<void> EmbeddedCluster::start(extender::VerbOptions options, std::uint16_t port,
                                    std::uint16_t service_port) {
  extender::ExtenderOptions extender{.verbs = std::move(options), .url_prefix = kUrlPrefix};
  extender.http.port = port;
  extender.service.http.port = service_port;
  auto started = extender::Extender::start(std::move(extender), api_server_);
  if (!started) return started.error();
  extender_ = std::move(*started);
  auto client = connect(extender_->port());
  if (!client) return client.error();
  client_ = std::move(*client);
  auto inspection_client = connect(extender_->service_port());
  if (!inspection_client) return inspection_client.error();
  inspection_client_ = std::move(*inspection_client);
  return wait_ready();
}

Result<std::unique_ptr<kube::CurlTransport>> EmbeddedCluster::connect(std::uint16_t port) {
  kube::Config config;
  config.server = "http://127.0.0.1:" + std::to_string(port);
  return kube::CurlTransport::create(std::move(config), client_executor_);
}

Result<void> EmbeddedCluster::wait_ready() {
  for (int i = 0; i < kReadyPolls; ++i) {
    if (call(*inspection_client_, get("/readyz")).ok()) return {};
    std::this_thread::sleep_for(kReadyPollInterval);
  }
  return error("the extender did not become ready");
}

}  // namespace mgpu::sim
