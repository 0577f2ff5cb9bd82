// mgpu-scale-server: the in-memory API server over HTTP with a cluster of a given size, for the
// extender that bench/scale.sh and bench/web.sh start.

#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include "bench/apiserver/api_server.h"
#include "bench/scale/cluster_objects.h"
#include "bench/scale/watch_body.h"
#include "common/base/asio_executor.h"
#include "common/base/options.h"
#include "common/http/server.h"

namespace {

struct Flags {
  std::int64_t nodes = 5'000;
  std::int64_t pods = 40'000;
};

bool create(mgpu::kube::MemoryApiServer& server, const std::string& collection,
            std::string object) {
  mgpu::kube::Request request;
  request.method = mgpu::kube::Method::kPost;
  request.target = collection;
  request.content_type = "application/json";
  request.body = std::move(object);
  return server.call(request).ok();
}

bool fill(mgpu::kube::MemoryApiServer& server, const Flags& flags) {
  for (std::int64_t i = 0; i < flags.nodes; ++i)
    if (!create(server, "/api/v1/nodes",
                mgpu::bench::as_created(mgpu::bench::node_object(static_cast<std::size_t>(i)))))
      return false;
  for (std::int64_t i = 0; i < flags.pods; ++i)
    if (!create(server, "/api/v1/namespaces/default/pods",
                mgpu::bench::as_created(mgpu::bench::pod_object(static_cast<std::size_t>(i)))))
      return false;
  return true;
}

mgpu::kube::Method method_of(const std::string& name) {
  if (name == "POST") return mgpu::kube::Method::kPost;
  if (name == "PUT") return mgpu::kube::Method::kPut;
  if (name == "DELETE") return mgpu::kube::Method::kDelete;
  return mgpu::kube::Method::kGet;
}

// PATCH is not served: its kind is in a header that the server does not read.
mgpu::http::Handler front_of(mgpu::kube::MemoryApiServer& server) {
  return [&server](mgpu::http::Request request, const mgpu::http::Respond& respond) {
    const bool watch = request.query.find("watch=") != std::string::npos;
    mgpu::kube::Request inner;
    inner.method = method_of(request.method);
    inner.target = request.path + (request.query.empty() ? "" : "?" + request.query);
    inner.body = std::move(request.body);
    inner.content_type = inner.body.empty() ? "" : "application/json";
    if (watch) return mgpu::bench::respond_with_watch(server, std::move(inner), respond);
    mgpu::kube::Response answer = server.call(inner);
    respond({answer.status, "application/json", std::move(answer.body)});
  };
}

int serve(const Flags& flags, const sigset_t& signals) {
  mgpu::AsioExecutor executor;
  mgpu::kube::MemoryApiServer server(executor, {});
  if (!fill(server, flags)) {
    std::fputs("mgpu-scale-server: the in-memory API server rejected an object\n", stderr);
    return 1;
  }
  mgpu::http::ServerOptions options;
  options.address = "127.0.0.1";
  auto started = mgpu::http::Server::start(options, front_of(server), {});
  if (!started) {
    std::fprintf(stderr, "mgpu-scale-server: %s\n", started.error().message.c_str());
    return 1;
  }
  std::printf("%u\n", static_cast<unsigned>((*started)->port()));
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  executor.stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  mgpu::Options options("mgpu-scale-server",
                        "Serves a cluster of a given size, and prints its port.", "");
  options.add_number("nodes", "Number of nodes with 8 cards.", flags.nodes, 1, 50'000);
  options.add_number("pods", "Number of pods with half a card.", flags.pods, 0, 800'000);
  const mgpu::ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return serve(flags, signals);
}
