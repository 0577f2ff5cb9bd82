// mgpu-latency: measures the latency of the extender's verbs, and compares it with an echo server
// and a naive extender.

#include <cstdio>
#include <string>
#include <vector>

#include "bench/latency/cases.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "extender/placement/policy.h"

namespace {

struct Flags {
  std::int64_t nodes = 0;
  std::int64_t http_threads = 0;
  std::string policy{mgpu::extender::kDefaultPolicy};
  std::string output = "table";
  std::int64_t requests = 2'000;
};

void add_flags(mgpu::Options& options, Flags& flags) {
  options.add_number("nodes",
                     "Number of nodes, each with 8 cards and 8 pods; 0 = 1000, 5000 and 15000.",
                     flags.nodes, 0, 50'000);
  options.add_number("http-threads", "Number of threads of each server; 0 = first 1, then 2.",
                     flags.http_threads, 0, 64);
  options.add_text("policy", "Policy of the extender.", flags.policy);
  options.add_choice("output", "Format on standard output: a table or a JSON array.", flags.output,
                     {"table", "json"});
  options.add_number("requests", "Number of requests in a measurement; fewer if they take long.",
                     flags.requests, 10, 1'000'000);
  options.check([&flags]() -> mgpu::Result<void> {
    auto policy = mgpu::extender::find_policy(flags.policy);
    if (!policy) return mgpu::error("--policy: " + policy.error().message);
    if (flags.nodes > 0 && flags.nodes % 4 != 0)
      return mgpu::error("--nodes must be a multiple of 4, is " + std::to_string(flags.nodes));
    return {};
  });
}

std::vector<mgpu::bench::Plan> plans_of(const Flags& flags) {
  std::vector<mgpu::bench::Plan> plans;
  for (const std::size_t nodes : {1'000U, 5'000U, 15'000U}) {
    for (const std::size_t threads : {1U, 2U}) {
      if (flags.http_threads > 0 && threads > 1) continue;
      mgpu::bench::Plan plan{nodes, threads, flags.policy,
                             static_cast<std::size_t>(flags.requests)};
      if (flags.nodes > 0) plan.nodes = static_cast<std::size_t>(flags.nodes);
      if (flags.http_threads > 0) plan.threads = static_cast<std::size_t>(flags.http_threads);
      plans.push_back(plan);
    }
    if (flags.nodes > 0) break;
  }
  return plans;
}

mgpu::Result<void> run(const Flags& flags) {
  const bool table = flags.output == "table";
  std::vector<mgpu::bench::Row> rows;
  if (table) std::printf("%s\n", mgpu::bench::table_head().c_str());
  for (const auto& plan : plans_of(flags)) {
    const auto ran = mgpu::bench::run_plan(plan, [&](const mgpu::bench::Row& row) {
      rows.push_back(row);
      if (!table) return;
      std::printf("%s\n", mgpu::bench::table_line(row).c_str());
      std::fflush(stdout);
    });
    if (!ran) return ran;
  }
  if (!table) std::fputs(mgpu::bench::to_json(rows).c_str(), stdout);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  mgpu::Options options("mgpu-latency", "Measures the latency of the extender's verbs.", "");
  add_flags(options, flags);
  const mgpu::ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (!mgpu::set_log_level("error")) return 2;
  if (auto ran = run(flags); !ran) {
    std::fprintf(stderr, "mgpu-latency: %s\n", ran.error().message.c_str());
    return 1;
  }
  return 0;
}
