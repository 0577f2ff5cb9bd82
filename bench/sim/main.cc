// mgpu-sim: runs the extender with an embedded cluster, and its decisions on a trace.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "bench/sim/demo.h"
#include "bench/trace/command.h"
#include "common/base/log.h"
#include "common/base/options.h"
#include "common/contract/contract.h"
#include "extender/placement/policy.h"

namespace {

struct Flags {
  std::string nodes;
  std::string pods;
  std::string output = "screen";
  std::string policy{mgpu::extender::kDefaultPolicy};
  std::string resource_domain{mgpu::kDefaultResourceDomain};
  std::string log_level = "error";
  std::int64_t min_memory_mib = 256;
  std::int64_t port = 0;
  std::int64_t web_port = 9802;
  mgpu::Duration interval{200};
  bool serve = false;
};

void add_demo_flags(mgpu::Options& demo, Flags& flags) {
  demo.add_text("nodes",
                "YAML file with nodes (Node, List), with cards of mgpu or with the labels "
                "nvidia.com/gpu.product, .count and .memory; empty = the embedded example.",
                flags.nodes);
  demo.add_text("pods",
                "YAML file with pods (Pod, List, Deployment, ...) that request cards of mgpu, "
                "nvidia.com/gpu or what else kubectl mgpu convert knows; empty = the embedded "
                "example.",
                flags.pods);
  demo.add_choice("output", "Format on standard output: text, or a JSON array of the pods.",
                  flags.output, {"screen", "json"});
  demo.add_flag("serve",
                "Keep the extender and its web page running until interrupted, and print the "
                "address of the page.",
                flags.serve);
  demo.add_number("web-port", "Port of the web page on 127.0.0.1 with --serve; 0 = any free port.",
                  flags.web_port, 0, 65535);
  demo.add_number("port", "Port of the extender on 127.0.0.1; 0 = any free port.", flags.port, 0,
                  65535);
  demo.add_text("policy", "Policy for pods without the annotation mgpu-policy.", flags.policy);
  demo.add_text("resource-domain", "Domain of resources and annotations.", flags.resource_domain);
  demo.add_number("min-memory-mib", "Minimum memory of one card that a share may request, in MiB.",
                  flags.min_memory_mib, 1, 1'000'000);
  demo.add_duration("interval", "Pause after each pod when standard output is a terminal.",
                    flags.interval, mgpu::Duration(0), mgpu::Duration(10'000));
  demo.add_choice("log-level", "Log level of the extender, which logs to standard error.",
                  flags.log_level, {"debug", "info", "warn", "error", "off"});
  demo.check([&flags]() -> mgpu::Result<void> {
    auto policy = mgpu::extender::find_policy(flags.policy);
    if (!policy) return mgpu::error("--policy: " + policy.error().message);
    auto contract = mgpu::Contract::for_domain(flags.resource_domain);
    if (!contract) return mgpu::error("--resource-domain: " + contract.error().message);
    return {};
  });
}

mgpu::Result<mgpu::sim::Manifests> load(const Flags& flags) {
  using namespace mgpu::sim;
  auto nodes = flags.nodes.empty() ? embedded_nodes() : read_manifest_file(flags.nodes);
  if (!nodes) return nodes.error();
  auto pods = flags.pods.empty() ? embedded_pods() : read_manifest_file(flags.pods);
  if (!pods) return pods.error();
  for (const std::string& sentence : {nodes->not_read, pods->not_read})
    if (!sentence.empty()) std::fprintf(stderr, "mgpu-sim: %s\n", sentence.c_str());
  if (nodes->nodes.empty()) return mgpu::error(flags.nodes + " contains no Node");
  if (pods->pods.empty()) return mgpu::error(flags.pods + " contains no Pod");
  return Manifests{std::move(nodes->nodes), std::move(pods->pods), {}};
}

mgpu::Result<void> run(const Flags& flags) {
  auto manifests = load(flags);
  if (!manifests) return manifests.error();
  return mgpu::sim::run_demo({.manifests = std::move(*manifests),
                              .policy = flags.policy,
                              .resource_domain = flags.resource_domain,
                              .min_memory_mib = flags.min_memory_mib,
                              .port = static_cast<std::uint16_t>(flags.port),
                              .web_port = static_cast<std::uint16_t>(flags.web_port),
                              .interval = flags.interval,
                              .json = flags.output == "json",
                              .serve = flags.serve});
}

mgpu::Result<void> run_trace(const mgpu::trace::CommandFlags& flags) {
  const auto text = mgpu::trace::run_command(flags);
  if (!text) return text.error();
  std::fputs(text->c_str(), stdout);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  mgpu::trace::CommandFlags trace_flags;
  mgpu::Options options("mgpu-sim", "Runs the mgpu extender with an embedded cluster.", "MGPU_SIM");
  add_demo_flags(options.add_command("demo", "Schedule pods on nodes and show the result."), flags);
  mgpu::trace::add_command(
      options.add_command("trace",
                          "Schedule the pods of a trace and report the allocation of cards."),
      trace_flags);
  const mgpu::ParsedOptions parsed = options.parse(argc, argv);
  std::fputs(parsed.print.c_str(), parsed.exit_code == 0 ? stdout : stderr);
  if (!parsed.run) return parsed.exit_code;
  if (auto level = mgpu::set_log_level(flags.log_level); !level) return 2;
  const bool demo = options.command() == "demo";
  if (auto ran = demo ? run(flags) : run_trace(trace_flags); !ran) {
    std::fprintf(stderr, "mgpu-sim: %s\n", ran.error().message.c_str());
    return 1;
  }
  return 0;
}
