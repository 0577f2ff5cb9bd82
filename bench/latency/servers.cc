#include "bench/latency/servers.h"

#include <thread>
#include <utility>

#include "bench/latency/limits.h"
#include "common/contract/contract.h"

namespace mgpu::bench {
namespace {

http::ServerOptions on_loopback(std::size_t threads) {
  http::ServerOptions options;
  options.body_bytes_max = limits::kBodyBytesMax;
  options.address = "127.0.0.1";
  options.threads = threads;
  return options;
}

Result<extender::ExtenderSettings> settings_of(std::size_t threads, const std::string& policy) {
  auto contract = Contract::for_domain(kDefaultResourceDomain);
  if (!contract) return contract.error();
  auto choice = extender::find_policy(policy);
  if (!choice) return choice.error();
  extender::ExtenderSettings settings;
  settings.verbs.contract = std::move(*contract);
  settings.verbs.policy = *choice;
  settings.http = on_loopback(threads);
  return settings;
}

}  // namespace

Servers::Servers(ClusterSize size) : size_(size), feed_(executor_, size), naive_(size) {}

Servers::~Servers() {
  naive_server_.reset();
  echo_.reset();
  extender_.reset();
  executor_.stop();
}

Result<std::unique_ptr<Servers>> Servers::start(ClusterSize size, std::size_t threads,
                                                const std::string& policy) {
  std::unique_ptr<Servers> servers(new Servers(size));
  if (auto started = servers->start_extender(threads, policy); !started) return started.error();
  if (auto started = servers->start_echo(threads); !started) return started.error();
  if (auto started = servers->start_naive(threads); !started) return started.error();
  return servers;
}

Result<void> Servers::start_extender(std::size_t threads, const std::string& policy) {
  auto settings = settings_of(threads, policy);
  if (!settings) return settings.error();
  const auto begun = std::chrono::steady_clock::now();
  auto started = extender::Extender::start(std::move(*settings), feed_);
  if (!started) return started.error();
  extender_ = std::move(*started);
  while (!extender_->ready()) {
    const auto passed = std::chrono::steady_clock::now() - begun;
    if (passed > limits::kReadyWithin) return error("the extender did not become ready");
    std::this_thread::sleep_for(limits::kReadyPoll);
  }
  ready_after_ = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begun);
  return {};
}

void Servers::answer_echo(const http::Request& request, const http::Respond& respond) {
  const auto answer = [this, respond] { respond({.body = std::string(echo_bytes_, ' ')}); };
  if (request.path != "/late") return answer();
  executor_.post([this, answer] { executor_.after(limits::kApiServerDelay, answer); });
}

Result<void> Servers::start_echo(std::size_t threads) {
  auto started =
      http::Server::start(on_loopback(threads),
                          [this](const http::Request& request, const http::Respond& respond) {
                            answer_echo(request, respond);
                          },
                          {});
  if (!started) return started.error();
  echo_ = std::move(*started);
  return {};
}

Result<void> Servers::start_naive(std::size_t threads) {
  auto started = http::Server::start(
      on_loopback(threads),
      [this](const http::Request& request, const http::Respond& respond) {
        const bool filter = request.path.ends_with("/filter");
        respond({.body = filter ? naive_.filter(request.body) : naive_.prioritize(request.body)});
      },
      {});
  if (!started) return started.error();
  naive_server_ = std::move(*started);
  return {};
}

}  // namespace mgpu::bench
