#include "common/program/service_routes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/base/version.h"

namespace mgpu {
namespace {

constexpr std::size_t kStatmBytesMax = 4096;  // it has seven numbers, see proc(5)

// Zero without /proc.
double resident_bytes() {
  const auto text = read_file("/proc/self/statm", kStatmBytesMax);
  std::istringstream statm(text ? *text : "");
  std::int64_t size = 0;
  std::int64_t resident = 0;
  statm >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

std::string quoted(const std::string& text) {
  return '"' + json_escaped(text) + '"';
}

// Empty if there are none.
std::string list_member(const char* name, const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  std::vector<std::string> elements;
  for (const std::string& text : texts) elements.push_back(quoted(text));
  return fmt::format(", \"{}\": [{}]", name, fmt::join(elements, ", "));
}

http::Response liveness_response(const Heartbeat& work) {
  if (!work.is_missed()) return {.content_type = "text/plain", .body = "ok\n"};
  const auto silence = std::chrono::floor<std::chrono::seconds>(work.silence());
  return {.status = 500,
          .content_type = "text/plain",
          .body = fmt::format("nothing has been done for {} s\n", silence.count())};
}

}  // namespace

http::Response readiness_response(const Readiness& readiness) {
  const bool ready = readiness.waiting_for.empty() && !readiness.draining;
  std::vector<std::string> unreadable;
  for (const auto& [collection, count] : readiness.unreadable) {
    unreadable.push_back(fmt::format("{}: {}", quoted(collection), count));
  }
  std::string body = fmt::format("{{\"ready\": {}", ready);
  if (!readiness.role.empty()) body += fmt::format(", \"role\": {}", quoted(readiness.role));
  if (readiness.draining) body += ", \"draining\": true";
  body += list_member("waiting_for", readiness.waiting_for);
  body += list_member("without", readiness.without);
  if (readiness.failing) {
    body += fmt::format(", \"api_server\": \"no answer for {} s\"", readiness.silence.count());
  } else if (ready) {
    body += ", \"api_server\": \"answers\"";
  }
  if (!unreadable.empty()) {
    body += fmt::format(", \"unreadable_objects\": {{{}}}", fmt::join(unreadable, ", "));
  }
  return {.status = ready ? 200 : 503, .body = body + "}\n"};
}

void add_service_routes(http::Router& router, Metrics& metrics, const Heartbeat& work,
                        std::function<Readiness()> readiness) {
  const auto add = [&](const char* path, std::function<http::Response()> answer) {
    router.add("GET", path,
               [answer = std::move(answer)](const http::Request&, const http::Respond& respond) {
                 respond(answer());
               });
  };
  for (const char* path : {"/healthz", "/livez"}) {
    add(path, [&work] { return liveness_response(work); });
  }
  add("/readyz", [readiness = std::move(readiness)] { return readiness_response(readiness()); });
  add("/metrics", [&metrics] {
    return http::Response{.content_type = kMetricsContentType, .body = metrics.text()};
  });
  add("/version", [] {
    return http::Response{.body = fmt::format("{{\"version\": \"{}\", \"commit\": \"{}\"}}\n",
                                              MGPU_VERSION, kBuildCommit)};
  });
}

void add_process_metrics(Metrics& metrics, const std::string& prefix) {
  metrics
      .gauge(prefix + "_build_info", "Always 1; version and commit are labels.",
             {{"commit", kBuildCommit}, {"version", MGPU_VERSION}})
      .Set(1);
  Gauge& resident =
      metrics.gauge("process_resident_memory_bytes", "Resident memory of this process.");
  Counter& dropped =
      metrics.counter(prefix + "_log_lines_dropped_total",
                      "Log lines that were dropped, because nobody read standard error.");
  metrics.on_collect([&resident, &dropped] {
    resident.Set(resident_bytes());
    dropped.Increment(static_cast<double>(log_lines_dropped()) - dropped.Value());
  });
}

}  // namespace mgpu
