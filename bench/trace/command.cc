#include "bench/trace/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "bench/trace/arrival_order.h"
#include "bench/trace/limits.h"
#include "bench/trace/objects.h"
#include "bench/trace/placements.h"
#include "bench/trace/policies/policies.h"
#include "bench/trace/report.h"
#include "bench/trace/run.h"
#include "bench/trace/seeds.h"
#include "bench/trace/trace_files.h"
#include "bench/trace/turnover.h"
#include "common/base/text.h"
#include "extender/placement/policies/policies.h"

namespace mgpu::trace {
namespace {

constexpr std::string_view kSynthetic = "synthetic";

std::string trace_name(const CommandFlags& flags) {
  if (!flags.trace.empty()) return flags.trace;
  return flags.traces.empty() ? std::string(kSynthetic) : "default";
}

Result<Trace> read(const CommandFlags& flags) {
  const std::string name = trace_name(flags);
  if (!flags.traces.empty()) return read_trace(flags.traces, name, flags.nodes);
  if (name == kSynthetic) return synthetic_trace(flags.nodes);
  return error("--trace " + in_quotes(name) + ": the only trace without --traces is \"synthetic\"");
}

std::size_t jobs_of(const CommandFlags& flags) {
  if (flags.jobs > 0) return static_cast<std::size_t>(flags.jobs);
  return std::max(1U, std::thread::hardware_concurrency());
}

// FGD measures fragmentation without card memory, so the memory rule has no influence on it.
extender::TargetWorkload measure_of(const Trace& trace) {
  return extender::TargetWorkload(target_workload(Objects(trace, MemoryRule::kNone)));
}

bool wants_prices(const extender::PolicyChoice& policy) {
  return policy.node == &extender::kEquilibrium || policy.card == &extender::kEquilibrium;
}

// The published results of the reference policies assume that the whole list of pods is known. The
// extender learns its workload.
std::string workload_of(const CommandFlags& flags, const extender::PolicyChoice& policy) {
  if (flags.workload != "auto") return flags.workload;
  return wants_prices(policy) ? "learned" : "known";
}

PriceSourceFactory maker_for(const CommandFlags& flags, const extender::PolicyChoice& policy,
                             const Objects& objects) {
  if (workload_of(flags, policy) == "learned") return learned_workload();
  return known_workload(objects, wants_prices(policy));
}

Result<void> write_placements(const CommandFlags& flags, const Objects& objects,
                              const std::vector<SeedResult>& results) {
  if (flags.placements.empty()) return {};
  std::vector<Arrivals> seeds;
  for (const SeedResult& result : results) seeds.push_back(result.arrivals);
  const auto written = write_text_file(flags.placements, placements_json(objects, seeds));
  return written ? written : error("--placements: " + written.error().message);
}

// The published results are from a kube-scheduler that examines all nodes, and whose policy ranks
// all pods.
std::string non_gpu_of(const CommandFlags& flags, const extender::PolicyChoice& policy) {
  if (flags.non_gpu != "auto") return flags.non_gpu;
  return wants_prices(policy) ? "taints" : "extender";
}
std::string sampling_of(const CommandFlags& flags, const extender::PolicyChoice& policy) {
  if (flags.sampling != "auto") return flags.sampling;
  return wants_prices(policy) ? "kube-scheduler" : "all";
}

NonGpuRanking non_gpu_ranking(const std::string& name) {
  if (name == "extender") return NonGpuRanking::kExtender;
  return name == "defaults" ? NonGpuRanking::kDefaults : NonGpuRanking::kTaints;
}

Ties ties_of(const std::string& name) {
  if (name == "pod") return Ties::kPod;
  return name == "random" ? Ties::kRandom : Ties::kFirst;
}

SchedulerRules scheduler_rules(const CommandFlags& flags, const extender::PolicyChoice& policy) {
  return {
      .ties = ties_of(flags.ties),
      .non_gpu = non_gpu_ranking(non_gpu_of(flags, policy)),
      .sampling = sampling_of(flags, policy) == "all" ? Sampling::kAll : Sampling::kKubeScheduler};
}

Heading heading_of(const CommandFlags& flags, const extender::PolicyChoice& policy,
                   const Trace& trace) {
  return {.trace = trace_name(flags),
          .policy = flags.policy,
          .workload = workload_of(flags, policy),
          .ties = flags.ties,
          .non_gpu = non_gpu_of(flags, policy),
          .sampling = sampling_of(flags, policy),
          .order = flags.order,
          .memory = flags.memory,
          .nodes = trace.nodes.size(),
          .cards = trace.cards()};
}

std::string text_of(const CommandFlags& flags, const Report& report) {
  return flags.output == "json" ? report_json(report) : report_table(report);
}

// Runs the protocol of FGD, in which no pod terminates.
Result<std::string> growth(const CommandFlags& flags, const Trace& trace, const Objects& objects,
                           const RunOptions& options, const std::vector<std::uint64_t>& seeds) {
  const auto results = run_seeds(objects, options, seeds, jobs_of(flags));
  if (const auto written = write_placements(flags, objects, results); !written)
    return written.error();
  return text_of(flags, report_of(heading_of(flags, options.policy, trace), results));
}

Result<std::string> turnover(const CommandFlags& flags, const Trace& trace, const Objects& objects,
                             const RunOptions& options, const std::vector<std::uint64_t>& seeds) {
  if (flags.order != "drawn")
    return error("--order cannot be combined with --departures, where pods arrive at random");
  if (!flags.placements.empty())
    return error("--placements cannot be combined with --departures, because pods terminate");
  const auto load = static_cast<double>(flags.departures);
  const double arrivals = expected_arrivals(trace, load);
  if (arrivals > static_cast<double>(limits::kArrivalsMax)) {
    return error(fmt::format("--departures {} needs {:.0f} arrivals; expected at most {}",
                             flags.departures, arrivals, limits::kArrivalsMax));
  }
  const auto results = run_turnovers(objects, options, load, seeds, jobs_of(flags));
  return text_of(flags, report_of(heading_of(flags, options.policy, trace), load, results));
}

// Checks what can be checked without reading a file.
Result<void> check(const CommandFlags& flags) {
  if (const auto policy = find_policy(flags.policy); !policy)
    return error("--policy: " + policy.error().message);
  if (const auto seeds = parse_seeds(flags.seeds); !seeds)
    return error("--seeds: " + seeds.error().message);
  return {};
}

}  // namespace

void add_command(Options& command, CommandFlags& flags) {
  command.add_text("traces",
                   "Folder with openb_node_list_gpu_node.csv and openb_pod_list_<trace>.csv; empty "
                   "= the synthetic workload.",
                   flags.traces);
  command.add_text("trace", "Name of the trace in that folder; empty = default.", flags.trace);
  command.add_text("nodes", "Node list to use in place of the folder's, with the same columns.",
                   flags.nodes);
  command.add_text("policy", "Policy of the extender, or a published one.", flags.policy);
  command.add_text("seeds", "Numbers and ranges; each seed is one run.", flags.seeds);
  command.add_choice(
      "workload",
      "Pods that the policy knows beforehand: known = the whole list, learned = only pods that "
      "have arrived, auto = learned for equilibrium and known for the others.",
      flags.workload, {"auto", "known", "learned"});
  command.add_choice("ties",
                     "Choice among nodes of equal score: first = the smallest name, random = any, "
                     "pod = the extender's own for each pod, and then the smallest name.",
                     flags.ties, {"first", "random", "pod"});
  command.add_choice(
      "non-gpu",
      "Ranking of nodes for non-GPU pods: defaults = the default plugins of kube-scheduler, taints "
      "= also the taint that mgpu-device-plugin writes, extender = the verb prioritize-non-gpu, "
      "auto = taints for equilibrium and extender for the others.",
      flags.non_gpu, {"auto", "taints", "defaults", "extender"});
  command.add_choice("sampling",
                     "Nodes that kube-scheduler examines for a pod: kube-scheduler = as many as by "
                     "default, all = as with percentageOfNodesToScore: 100, auto = kube-scheduler "
                     "for equilibrium and all for the others.",
                     flags.sampling, {"auto", "kube-scheduler", "all"});
  command.add_choice("order",
                     "Order in which pods arrive: drawn = as in the published runs; the others "
                     "show how the policy follows a workload that changes.",
                     flags.order, {kArrivalOrders.begin(), kArrivalOrders.end()});
  command.add_choice("memory",
                     "Memory of cards: none = it never limits a placement, reference = cards have "
                     "the memory of their model and shares request some by a fixed rule.",
                     flags.memory, {"none", "reference"});
  command.add_choice("output", "Format on standard output.", flags.output, {"table", "json"});
  command.add_text("placements", "File for the placement of every pod, as JSON; empty = none.",
                   flags.placements);
  command.add_number("arrived-until",
                     "Percentage of the cluster's cards that the arriving pods request in total.",
                     flags.arrived_until, 1, limits::kArrivedUntilMax);
  command.add_number("departures",
                     "0 = no pod terminates; otherwise pods terminate, and this is the offered "
                     "load in percent of the cluster's cards.",
                     flags.departures, 0, limits::kDeparturesMax);
  command.add_number("jobs", "Number of runs in parallel; 0 = one for each processor.", flags.jobs,
                     0, limits::kJobsMax);
  command.check([&flags] { return check(flags); });
}

Result<std::string> run_command(const CommandFlags& flags) {
  if (const auto checked = check(flags); !checked) return checked.error();
  const auto policy = find_policy(flags.policy);
  const auto seeds = parse_seeds(flags.seeds);
  const auto trace = read(flags);
  if (!trace) return trace.error();
  const Objects objects(*trace,
                        flags.memory == "reference" ? MemoryRule::kReference : MemoryRule::kNone);
  const RunOptions options{.policy = *policy,
                           .make_price_source = maker_for(flags, *policy, objects),
                           .measure = measure_of(*trace),
                           .scheduler = scheduler_rules(flags, *policy),
                           .arrived_until = flags.arrived_until,
                           .order = find_arrival_order(flags.order).value_or(ArrivalOrder::kDrawn),
                           .keep_arrivals = !flags.placements.empty()};
  return flags.departures > 0 ? turnover(flags, *trace, objects, options, *seeds)
                              : growth(flags, *trace, objects, options, *seeds);
}

}  // namespace mgpu::trace
