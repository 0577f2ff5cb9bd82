#include "bench/trace/trace_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "bench/trace/arrivals.h"
#include "test/support/scratch_folder.h"

namespace mgpu::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const std::string kNodes = "sn,cpu_milli,memory_mib,gpu,model\n";
const std::string kPods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";

TEST(ReadNodes, ReadsWhatANodeHas) {
  const auto nodes = read_nodes(kNodes + "n0,64000,262144,2,P100\nn1,8000,1024,0,\n", "nodes.csv");
  ASSERT_TRUE(nodes) << nodes.error().message;
  ASSERT_EQ(nodes->size(), 2U);
  EXPECT_EQ((*nodes)[0].name, "n0");
  EXPECT_EQ((*nodes)[0].resources,
            (extender::NodeResources{extender::MilliCpu(64000), MiB(262144)}));
  EXPECT_EQ((*nodes)[0].cards, 2);
  EXPECT_EQ((*nodes)[0].model, "P100");
  EXPECT_EQ((*nodes)[1].cards, 0);
}

TEST(ReadPods, ReadsWhatAPodAsks) {
  const auto pods = read_pods(
      kPods + "p0,4000,8192,1,460,\np1,1,1,8,1000,G2|T4|G2\np2,500,64,0,0,\n", "pods.csv");
  ASSERT_TRUE(pods) << pods.error().message;
  ASSERT_EQ(pods->size(), 3U);
  EXPECT_EQ((*pods)[0].resources, (extender::NodeResources{extender::MilliCpu(4000), MiB(8192)}));
  EXPECT_EQ((*pods)[0].total_milli(), 460);
  EXPECT_THAT((*pods)[0].models, IsEmpty());
  EXPECT_EQ((*pods)[1].total_milli(), 8000);
  EXPECT_THAT((*pods)[1].models, ElementsAre("G2", "T4", "G2"));
  EXPECT_EQ((*pods)[2].total_milli(), 0);
}

TEST(ReadPods, TakeColumnsInAnyOrderAndIgnoreOthers) {
  const auto pods =
      read_pods("qos,gpu_milli,num_gpu,memory_mib,cpu_milli,name\nLS,1000,2,30,20,p\n", "pods.csv");
  ASSERT_TRUE(pods) << pods.error().message;
  EXPECT_EQ((*pods)[0].total_milli(), 2000);
  EXPECT_EQ((*pods)[0].resources.cpu.value(), 20);
  EXPECT_THAT((*pods)[0].models, IsEmpty());
}

struct RefusedRow {
  std::string row;
  std::string sentence;
};

class NodesRefused : public testing::TestWithParam<RefusedRow> {};

TEST_P(NodesRefused, NamingLineAndColumn) {
  const auto nodes = read_nodes(kNodes + "first,1,1,1,T4\n" + GetParam().row + "\n", "nodes.csv");
  ASSERT_FALSE(nodes);
  EXPECT_THAT(nodes.error().message, HasSubstr("nodes.csv line 3, column " + GetParam().sentence));
}

INSTANTIATE_TEST_SUITE_P(
    Rows, NodesRefused,
    testing::Values(
        RefusedRow{",1,1,1,T4", "sn: \"\"; expected 1 to 200 letters"},
        RefusedRow{"a b,1,1,1,T4", "sn: \"a b\"; expected 1 to 200 letters"},
        RefusedRow{std::string(201, 'a') + ",1,1,1,T4", "sn: "},
        RefusedRow{"first,1,1,1,T4", "sn: \"first\"; expected a name that no line above it has"},
        RefusedRow{"n,x,1,1,T4", "cpu_milli: \"x\"; expected a whole number from 0 to 1000000000"},
        RefusedRow{"n,1,-1,1,T4", "memory_mib: \"-1\"; expected a whole number"},
        RefusedRow{"n,1,1,65,T4", "gpu: \"65\"; expected a whole number from 0 to 64"},
        RefusedRow{"n,1,1,1,", "model: \"\"; expected models of letters"},
        RefusedRow{"n,1,1,1,A 10", "model: \"A 10\"; expected models of letters"}));

class PodsRefused : public testing::TestWithParam<RefusedRow> {};

TEST_P(PodsRefused, NamingLineAndColumn) {
  const auto pods = read_pods(kPods + "first,1,1,1,1000,\n" + GetParam().row + "\n", "pods.csv");
  ASSERT_FALSE(pods);
  EXPECT_THAT(pods.error().message, HasSubstr("pods.csv line 3, column " + GetParam().sentence));
}

std::string models(int count) {
  std::string text = "M0";
  for (int i = 1; i < count; ++i) text += "|M" + std::to_string(i);
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, PodsRefused,
    testing::Values(
        RefusedRow{"first,1,1,1,1000,",
                   "name: \"first\"; expected a name that no line above it has"},
        RefusedRow{"p,,1,1,1000,", "cpu_milli: \"\"; expected a whole number"},
        RefusedRow{"p,1,1.5,1,1000,", "memory_mib: \"1.5\"; expected a whole number"},
        RefusedRow{"p,1,1,65,1000,", "num_gpu: \"65\"; expected a whole number from 0 to 64"},
        RefusedRow{"p,1,1,1,1001,", "gpu_milli: \"1001\"; expected a whole number from 0 to 1000"},
        RefusedRow{"p,1,1,1,455,", "gpu_milli: \"455\"; expected a multiple of 10"},
        RefusedRow{"p,1,1,1,0,", "gpu_milli: \"0\"; expected a multiple of 10"},
        RefusedRow{"p,1,1,0,100,", "gpu_milli: \"100\"; expected 0 where num_gpu is 0"},
        RefusedRow{"p,1,1,1,100,G2||T4", "gpu_spec: \"G2||T4\"; expected models"},
        RefusedRow{"p,1,1,1,100," + models(65), "gpu_spec: "}));

TEST(ReadPods, TakesAsManyModelsAsAPodMayName) {
  const auto pods = read_pods(kPods + "p,1,1,1,100," + models(64) + "\n", "pods.csv");
  ASSERT_TRUE(pods) << pods.error().message;
  EXPECT_EQ((*pods)[0].models.size(), 64U);
}

TEST(ReadTraceFiles, RefuseListsThatLeaveNothingToMeasure) {
  EXPECT_EQ(read_nodes(kNodes + "n,1,1,0,\n", "nodes.csv").error().message,
            "nodes.csv: has no node with cards; expected at least one");
  EXPECT_EQ(read_pods(kPods + "p,1,1,0,0,\n", "pods.csv").error().message,
            "pods.csv: has no pod that requests cards; expected at least one");
  EXPECT_EQ(read_pods("name,cpu_milli,memory_mib,num_gpu\n", "pods.csv").error().message,
            "pods.csv line 1: has no column gpu_milli; it names "
            "\"name,cpu_milli,memory_mib,num_gpu\"");
}

// Bytes are overwritten, dropped and doubled at random. The result is a list or an error.
TEST(ReadTraceFiles, TakeOrRefuseAnyBytes) {
  const std::string good = kPods + "p0,4000,8192,1,460,\np1,1,1,8,1000,G2|T4\np2,500,64,0,0,\n";
  Draws draws(1, 1);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = good;
    for (auto changes = draws.below(4) + 1; changes > 0 && !text.empty(); --changes) {
      const std::size_t at = draws.below(text.size());
      switch (draws.below(4)) {
        case 0:
          text[at] = static_cast<char>(draws.below(256));
          break;
        case 1:
          text.erase(at, draws.below(8) + 1);
          break;
        case 2:
          text.insert(at, text.substr(at, draws.below(16)));
          break;
        default:
          text.insert(at, 1, ",\n\r|0-"[draws.below(6)]);
      }
    }
    const auto pods = read_pods(text, "pods.csv");
    if (pods) continue;
    ++refused;
    EXPECT_THAT(pods.error().message, StartsWith("pods.csv"));
    EXPECT_LT(pods.error().message.size(), 400U);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 5000);
}

// --- folders -------------------------------------------------------------------------------------

class ReadTrace : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path(name)) << text;
  }
  test::ScratchFolder folder_;
};

TEST_F(ReadTrace, JoinsTheFoldersNodesAndTheTracesPods) {
  write("openb_node_list_gpu_node.csv", kNodes + "n0,64000,262144,2,P100\nn1,1,1,1,T4\n");
  write("openb_pod_list_mine.csv", kPods + "p0,4000,8192,1,460,\n");
  const auto trace = read_trace(folder_.path(), "mine", "");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->cards(), 3);
  EXPECT_EQ(trace->pods.size(), 1U);
}

TEST_F(ReadTrace, TakesAnotherNodeListWhereOneIsNamed) {
  write("other.csv", kNodes + "n0,1,1,5,T4\n");
  write("openb_pod_list_mine.csv", kPods + "p0,4000,8192,1,460,\n");
  const auto trace = read_trace(folder_.path(), "mine", folder_.path("other.csv"));
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->cards(), 5);
}

TEST_F(ReadTrace, SaysThatTheFolderIsNotThere) {
  const std::string none = folder_.path("none");
  EXPECT_EQ(read_trace(none, "default", "").error().message,
            "--traces: \"" + none + "\" is not a directory");
}

TEST_F(ReadTrace, ListsTheTracesThatThereAre) {
  write("openb_pod_list_b.csv", "");
  write("openb_pod_list_a.csv", "");
  write("openb_node_list_gpu_node.csv", "");
  EXPECT_EQ(read_trace(folder_.path(), "c", "").error().message,
            "trace \"c\" is not in \"" + folder_.path() + "\"; it has a, b");
}

TEST_F(ReadTrace, SaysThatThereAreNone) {
  EXPECT_THAT(read_trace(folder_.path(), "c", "").error().message,
              HasSubstr("it has no trace (no openb_pod_list_<name>.csv)"));
}

TEST_F(ReadTrace, NeverLeavesTheFolder) {
  std::filesystem::create_directory(folder_.path("in"));
  std::filesystem::create_directory(folder_.path("in/openb_pod_list_x"));
  write("secret.csv", kPods + "p0,4000,8192,1,460,\n");
  EXPECT_THAT(read_trace(folder_.path("in"), "x/../../secret", "").error().message,
              HasSubstr("is not in"));
}

TEST_F(ReadTrace, NamesTheFileThatIsWrong) {
  write("openb_pod_list_mine.csv", kPods + "p0,4000,8192,1,4.6,\n");
  EXPECT_THAT(read_trace(folder_.path(), "mine", "").error().message,
              HasSubstr("openb_pod_list_mine.csv line 2, column gpu_milli: \"4.6\""));
}

TEST_F(ReadTrace, SaysThatTheNodeListIsNotThere) {
  write("openb_pod_list_mine.csv", kPods + "p0,4000,8192,1,460,\n");
  EXPECT_THAT(read_trace(folder_.path(), "mine", "").error().message,
              HasSubstr("openb_node_list_gpu_node.csv"));
}

TEST(SyntheticTrace, NearlyFillsItsCluster) {
  const auto trace = synthetic_trace("");
  ASSERT_TRUE(trace) << trace.error().message;
  std::int64_t requested = 0;
  for (const TracePod& pod : trace->pods) requested += pod.total_milli();
  EXPECT_GT(requested, trace->cards() * 800);
  EXPECT_LT(requested, trace->cards() * 1300);
}

}  // namespace
}  // namespace mgpu::trace
