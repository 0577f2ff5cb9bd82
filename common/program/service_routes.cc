#include "common/program/service_routes.h"

#include <unistd.h>

#include <cstdint>
#include <sstream>
#include <utility>

#include "common/base/files.h"

namespace mgpu {
namespace {

constexpr std::size_t kStatmBytesMax = 4096;  // seven numbers (proc(5))

// Zero where /proc is not there.
double resident_bytes() {
  const auto text = read_file("/proc/self/statm", kStatmBytesMax);
  std::istringstream statm(text ? *text : "");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void add_service_routes(http::Router& router, Metrics& metrics,
                        std::function<Readiness()> readiness) {
  const auto add = [&](const char* path, std::function<http::Response()> answer) {
    router.add("GET", path,
               [answer = std::move(answer)](const http::Request&, const http::Respond& respond) {
                 respond(answer());
               });
  };
  add("/healthz", [] { return http::Response{.content_type = "text/plain", .body = "ok\n"}; });
  add("/readyz", [readiness = std::move(readiness)] { return readiness_response(readiness()); });
  add("/metrics", [&metrics] {
    return http::Response{.content_type = kMetricsContentType, .body = metrics.text()};
  });
  add("/version", [] {
    return http::Response{.body = std::string("{\"version\": \"") + MGPU_VERSION + "\"}\n"};
  });
}

void add_process_metrics(Metrics& metrics, const std::string& prefix) {
  metrics.gauge(prefix + "_build_info", "1; the version is a label.", {{"version", MGPU_VERSION}})
      .Set(1);
  Gauge& resident =
      metrics.gauge("process_resident_memory_bytes", "Memory of this process in RAM.");
  metrics.on_collect([&resident] { resident.Set(resident_bytes()); });
}

}  // namespace mgpu
