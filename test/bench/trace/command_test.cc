#include "bench/trace/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "test/support/scratch_folder.h"

namespace mgpu::trace {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

std::string problem_with(const CommandFlags& flags) {
  const auto text = run_command(flags);
  return text ? "" : text.error().message;
}

TEST(TraceCommand, RunsTheSyntheticWorkloadWhereNoTracesAreNamed) {
  CommandFlags flags;
  flags.policy = "binpack";  // it takes the least time
  flags.seeds = "1-2";
  flags.output = "json";
  const auto text = run_command(flags);
  ASSERT_TRUE(text) << text.error().message;
  const Json json = Json::parse(*text);
  EXPECT_EQ(json["trace"], "synthetic");
  EXPECT_EQ(json["seeds"].size(), 2U);
  EXPECT_EQ(json["seeds"][0]["overcommitted"], 0);
  EXPECT_GT(json["mean"]["at100"], 70);
}

// No pod terminates, so that the allocation never decreases.
TEST(TraceCommand, OvercommitsNothingByAnyPolicy) {
  constexpr double kRounding = 0.02;
  for (const char* policy :
       {"random", "dotprod", "clustering", "packing", "bestfit", "fgd", "spread", "equilibrium"}) {
    CommandFlags flags;
    flags.policy = policy;
    flags.seeds = "1";
    flags.memory = "reference";
    flags.output = "json";
    flags.arrived_until = 100;
    const auto text = run_command(flags);
    ASSERT_TRUE(text) << text.error().message;
    const Json seed = Json::parse(*text)["seeds"][0];
    EXPECT_EQ(seed["overcommitted"], 0) << policy;
    double before = 0;
    for (const Json& point : seed["curve"]) {
      EXPECT_GE(point["allocation"].get<double>() + kRounding, before) << policy << point;
      EXPECT_LE(point["allocation"], point["arrived"].get<double>() + 1) << policy << point;
      before = point["allocation"];
    }
    EXPECT_GT(before, 50) << policy;
  }
}

TEST(TraceCommand, RunsTheTraceOfAFolder) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("openb_node_list_gpu_node.csv"))
      << "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n";
  std::ofstream(folder.path("openb_pod_list_default.csv"))
      << "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,4000,8192,1,1000\n";
  CommandFlags flags;
  flags.traces = folder.path();
  flags.seeds = "1";
  flags.ties = "random";
  flags.memory = "reference";
  const auto text = run_command(flags);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text,
              StartsWith("trace default, policy equilibrium, workload learned, ties random, "
                         "non-GPU pods ranked by taints, sampling kube-scheduler, order drawn, "
                         "memory reference: 1 nodes, 2 cards\n"));
}

TEST(TraceCommand, StopsAtArrivedUntil) {
  CommandFlags flags;
  flags.policy = "fgd";
  flags.seeds = "1";
  flags.output = "json";
  flags.arrived_until = 96;
  const Json json = Json::parse(*run_command(flags));
  EXPECT_EQ(json["seeds"][0]["curve"].size(), 97U);
  EXPECT_TRUE(json["mean"]["at100"].is_null());
}

TEST(TraceCommand, RanksNodesForNonGpuPodsByEither) {
  CommandFlags flags;
  flags.policy = "fgd";
  flags.seeds = "1";
  flags.output = "json";
  const Json ranked = Json::parse(*run_command(flags));
  EXPECT_EQ(ranked["non_gpu"], "extender") << "as published";
  EXPECT_EQ(ranked["sampling"], "all");
  flags.non_gpu = "defaults";
  const Json by_defaults = Json::parse(*run_command(flags));
  EXPECT_EQ(by_defaults["non_gpu"], "defaults");
  EXPECT_EQ(by_defaults["seeds"][0]["overcommitted"], 0);
  EXPECT_GT(ranked["mean"]["at100"], by_defaults["mean"]["at100"]);
}

TEST(TraceCommand, RunsWithDepartures) {
  CommandFlags flags;
  flags.policy = "binpack";
  flags.seeds = "1";
  flags.output = "json";
  flags.departures = 90;
  const auto text = run_command(flags);
  ASSERT_TRUE(text) << text.error().message;
  const Json json = Json::parse(*text);
  EXPECT_EQ(json["load"], 90);
  EXPECT_NEAR(json["mean"]["allocation"], 85, 10);
  flags.output = "table";
  EXPECT_THAT(*run_command(flags), HasSubstr("rejected GPU %"));
  flags.placements = "/tmp/x";
  EXPECT_THAT(problem_with(flags), StartsWith("--placements cannot be combined with --departures"));
}

TEST(TraceCommand, RefusesTooManyArrivals) {
  const test::ScratchFolder folder;
  std::ofstream nodes(folder.path("nodes.csv"));
  nodes << "sn,cpu_milli,memory_mib,gpu,model\n";
  for (int i = 0; i < 20'000; ++i) nodes << "n" << i << ",64000,262144,64,P100\n";
  nodes.close();
  CommandFlags flags;
  flags.nodes = folder.path("nodes.csv");
  flags.departures = 1000;
  EXPECT_THAT(
      problem_with(flags),
      testing::MatchesRegex("--departures 1000 needs [0-9]+ arrivals; expected at most 2000000"));
}

TEST(TraceCommand, ListsThePoliciesThatThereAre) {
  CommandFlags flags;
  flags.policy = "best";
  EXPECT_THAT(problem_with(flags), StartsWith("--policy: "));
  EXPECT_THAT(problem_with(flags), HasSubstr("binpack"));
}

TEST(TraceCommand, SaysWhatIsWrongWithSeeds) {
  CommandFlags flags;
  flags.seeds = "9-1";
  EXPECT_THAT(problem_with(flags), StartsWith("--seeds: seeds \"9-1\": expected"));
}

TEST(TraceCommand, SaysThatATraceNeedsItsFolder) {
  CommandFlags flags;
  flags.trace = "default";
  EXPECT_EQ(problem_with(flags),
            "--trace \"default\": the only trace without --traces is \"synthetic\"");
}

TEST(TraceCommand, SaysThatTheFolderIsNotThere) {
  CommandFlags flags;
  flags.traces = "/nowhere";
  EXPECT_EQ(problem_with(flags), "--traces: \"/nowhere\" is not a directory");
}

TEST(TraceCommand, TakesAnotherNodeList) {
  const test::ScratchFolder folder;
  std::ofstream(folder.path("nodes.csv"))
      << "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n";
  CommandFlags flags;
  flags.nodes = folder.path("nodes.csv");
  flags.seeds = "1";
  const auto text = run_command(flags);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("1 nodes, 2 cards"));
  flags.nodes = folder.path("none.csv");
  EXPECT_THAT(problem_with(flags), HasSubstr("none.csv"));
}

TEST(TraceCommand, RefusesACommandLineThatIsWrongInItself) {
  for (const auto& [flag, value] :
       {std::pair("--policy", "best"), std::pair("--seeds", "first"), std::pair("--jobs", "x")}) {
    CommandFlags flags;
    Options options("mgpu-sim", "test", "");
    add_command(options.add_command("trace", "test"), flags);
    const char* const words[] = {"mgpu-sim", "trace", flag, value};
    const ParsedOptions parsed = options.parse(static_cast<int>(std::size(words)), words);
    EXPECT_FALSE(parsed.run) << flag;
    EXPECT_EQ(parsed.exit_code, 2) << flag;
    EXPECT_THAT(parsed.print, HasSubstr(flag));
  }
}

TEST(TraceCommand, HasEveryFlagOnItsCommandLine) {
  CommandFlags flags;
  Options options("mgpu-sim", "test", "");
  add_command(options.add_command("trace", "test"), flags);
  const char* const words[] = {
      "mgpu-sim",        "trace",    "--traces", "/t",        "--trace",      "cpu300",
      "--nodes",         "/n",       "--policy", "fgd",       "--seeds",      "1-3",
      "--non-gpu",       "defaults", "--ties",   "random",    "--memory",     "reference",
      "--sampling",      "all",      "--order",  "ascending", "--output",     "json",
      "--arrived-until", "95",       "--jobs",   "2",         "--departures", "110"};
  const ParsedOptions parsed = options.parse(static_cast<int>(std::size(words)), words);
  ASSERT_TRUE(parsed.run) << parsed.print;
  EXPECT_EQ(flags.traces, "/t");
  EXPECT_EQ(flags.trace, "cpu300");
  EXPECT_EQ(flags.nodes, "/n");
  EXPECT_EQ(flags.policy, "fgd");
  EXPECT_EQ(flags.seeds, "1-3");
  EXPECT_EQ(flags.ties, "random");
  EXPECT_EQ(flags.non_gpu, "defaults");
  EXPECT_EQ(flags.sampling, "all");
  EXPECT_EQ(flags.order, "ascending");
  EXPECT_EQ(flags.memory, "reference");
  EXPECT_EQ(flags.output, "json");
  EXPECT_EQ(flags.arrived_until, 95);
  EXPECT_EQ(flags.jobs, 2);
  EXPECT_EQ(flags.departures, 110);
}

}  // namespace
}  // namespace mgpu::trace
