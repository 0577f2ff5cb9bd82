// What nodes, cards and pods print, in every format.
#include "extender/kubectl/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/rfc3339.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "test/extender/kubectl/golden_view.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Amounts amounts(std::int64_t used, std::int64_t capacity) {
  return {.capacity = capacity, .used = used, .free = std::max<std::int64_t>(capacity - used, 0)};
}

InspectedCard card_of(std::int64_t index, std::int64_t core, std::int64_t memory) {
  InspectedCard card{
      .index = index, .uuid = "GPU-" + std::to_string(index), .model = "NVIDIA A100-SXM4-40GB"};
  card.pods = core > 0 ? 1 : 0;
  card.core = amounts(core, 100);
  card.memory = amounts(memory, 40'960);
  return card;
}

std::vector<InspectedNode> some_nodes() {
  InspectedNode first{
      .name = "gpu-1", .problem = {}, .isolation = "intercept", .pods = 3, .cards = {}};
  first.cards = {card_of(0, 30, 8'192), card_of(1, 100, 40'960), card_of(2, 0, 0)};
  InspectedNode second{.name = "gpu-2", .problem = {}, .isolation = {}, .pods = 1, .cards = {}};
  second.cards = {card_of(0, 80, 32'768), card_of(1, 0, 0), card_of(2, 0, 0)};
  second.cards[1].healthy = false;
  second.cards[1].health = "XID 79 since 2026-01-01T11:56:00Z";
  second.cards[1].core.free = 0;
  second.cards[2].cordoned = true;
  second.cards[2].model = "Tesla T4";
  first.cards[0].numa = first.cards[1].numa = 0;
  first.cards[2].numa = 1;
  first.cards[0].links = "NV2 1";
  first.cards[1].links = "NV2 0";
  InspectedNode third{.name = "gpu-3",
                      .problem = "annotation vke.volcengine.com/mgpu-cards: not JSON",
                      .isolation = {},
                      .pods = 0,
                      .cards = {}};
  return {first, second, third};
}

std::vector<InspectedNode> hostile_nodes() {
  auto nodes = some_nodes();
  nodes[0].name = hostile_text();
  nodes[0].isolation = hostile_text();
  nodes[0].taints = {hostile_text()};
  nodes[0].cards[0].model = hostile_text();
  nodes[0].cards[0].health = hostile_text();
  nodes[0].cards[0].uuid = hostile_text();
  nodes[0].cards[0].links = hostile_text();
  nodes[2].problem = hostile_text();
  return nodes;
}

const std::string kGolden = MGPU_SOURCE_DIR "/test/golden/kubectl/";
const Contract kContract = *Contract::for_domain(kDefaultResourceDomain);

GpuPod gpu_pod_of(const std::string& json) {
  const auto pod = read_gpu_pod(json);
  EXPECT_TRUE(pod) << pod.error().message;
  return pod ? *pod : GpuPod{};
}

std::string limits_of(const std::string& name, int core, int memory) {
  return R"({"name": ")" + name +
         R"(", "resources": {"limits": {"vke.volcengine.com/mgpu-core": )" + std::to_string(core) +
         (memory > 0 ? R"(, "vke.volcengine.com/mgpu-memory": )" + std::to_string(memory) : "") +
         "}}}";
}

std::vector<PodRow> rows_of(const std::vector<std::string>& pods) {
  std::vector<PodRow> rows;
  for (const std::string& pod : pods) {
    if (auto row = pod_row(gpu_pod_of(pod), kContract)) rows.push_back(*std::move(row));
  }
  return rows;
}

std::vector<PodRow> some_pods() {
  return rows_of({
      R"({"metadata": {"name": "notebook", "namespace": "research",
          "creationTimestamp": "2026-01-01T11:30:00Z",
          "annotations": {"vke.volcengine.com/gpu-index-container-app": "0",
                          "vke.volcengine.com/mgpu-policy": "spread"}},
          "spec": {"nodeName": "gpu-1", "containers": [)" +
          limits_of("app", 30, 8'192) + R"(]}, "status": {"phase": "Running"}})",
      R"({"metadata": {"name": "train", "namespace": "research",
          "creationTimestamp": "2025-12-29T12:00:00Z",
          "annotations": {"vke.volcengine.com/gpu-index-container-app": "0,1",
                          "vke.volcengine.com/gpu-index-container-side": "1"}},
          "spec": {"nodeName": "gpu-2", "containers": [)" +
          limits_of("app", 200, 0) + "," + limits_of("side", 10, 512) +
          R"(]}, "status": {"phase": "Running"}})",
      R"({"metadata": {"name": "waits", "namespace": "team-b",
          "creationTimestamp": "2026-01-01T11:59:30Z"},
          "spec": {"containers": [)" +
          limits_of("app", 50, 20'480) +
          R"(]},
          "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled",
            "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 node(s) had no single card with enough free )"
          R"(mgpu-core."}]}})",
      R"({"metadata": {"name": "by-hand", "namespace": "team-b"},
          "spec": {"nodeName": "gpu-1", "containers": [)" +
          limits_of("app", 50, 20'480) + R"(]}, "status": {"phase": "Pending"}})",
      R"({"metadata": {"name": "web", "namespace": "team-b"}, "spec": {"containers": []}})",
  });
}

Time noon() {
  return *read_rfc3339("2026-01-01T12:00:00Z");
}

TEST(InspectedNodes, SayWhichMemberOfTheAnswerCannotBeRead) {
  const auto without = read_inspected_nodes(Json::object());
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().message,
            "/inspect/cluster of the extender: the answer cannot be read: key 'nodes' not found");
  const auto with_text = read_inspected_nodes({{"nodes", {{{"name", 3}, {"cards", {}}}}}});
  ASSERT_FALSE(with_text);
  EXPECT_EQ(with_text.error().message,
            "/inspect/cluster of the extender: the answer cannot be read: type must be string, but "
            "is number");
}

TEST(NodesView, IsPrintedInEveryFormat) {
  expect_golden(nodes_view(some_nodes(), noon()), kGolden + "nodes");
}

TEST(CardsView, IsPrintedInEveryFormat) {
  expect_golden(cards_view(some_nodes(), noon()), kGolden + "cards");
}

TEST(PodsView, IsPrintedInEveryFormat) {
  expect_golden(pods_view(some_pods(), false, noon()), kGolden + "pods");
}

TEST(PodsView, NamesTheNamespacesOfSeveral) {
  expect_golden_text(shown_as(pods_view(some_pods(), true, noon()), "table", false).out,
                     kGolden + "pods-all.table.txt");
}

TEST(PodsByView, SumsTheNamespacesAndTheOwners) {
  std::vector<PodRow> pods = some_pods();
  for (PodRow& pod : pods) pod.owner = "Deployment/train";
  expect_golden(pods_by_view(pods, "owner"), kGolden + "pods-by-owner");
  const std::string spaces = shown_as(pods_by_view(pods, "namespace"), "table", false).out;
  EXPECT_THAT(spaces,
              testing::AllOf(testing::StartsWith("NAMESPACE "), testing::Not(HasSubstr("OWNER"))));
}

std::string sample_of(const std::string& metric, const std::string& pod, const char* value,
                      const std::string& more = "") {
  return "mgpu_container_" + metric + R"({namespace="research",pod=")" + pod +
         R"(",container="app",index="0",uuid="GPU-0")" + more + "} " + value + "\n";
}

Usages some_usages() {
  const auto samples = parse_metrics(
      "# HELP mgpu_container_memory_used_bytes x\n" +
      sample_of("memory_limit_bytes", "notebook", "8589934592") +
      sample_of("memory_used_bytes", "notebook", "9663676416") +
      sample_of("core_limit_ratio", "notebook", "0.3") +
      sample_of("sm_utilization_ratio", "notebook", "0.125") +
      sample_of("over_limit_total", "notebook", "3", R"(,resource="memory")") +
      sample_of("over_limit_total", "notebook", "1", R"(,resource="core")") +
      sample_of("core_limit_ratio", "train", "1") + sample_of("memory_used_bytes", "train", "0") +
      sample_of("memory_limit_bytes", "train", "42949672960") +
      "mgpu_card_healthy{node=\"gpu-1\",index=\"0\"} 1\n");
  EXPECT_TRUE(samples) << samples.error().message;
  Usages usages;
  if (samples) add_usages(*samples, usages);
  return usages;
}

TEST(TopView, IsPrintedInEveryFormat) {
  expect_golden(top_view(some_pods(), some_usages(), false), kGolden + "top");
}

TEST(Usages, OfPodsOfOtherNodesAreSkipped) {
  const auto samples = parse_metrics(sample_of("core_limit_ratio", "notebook", "0.3"));
  ASSERT_TRUE(samples);
  Usages usages;
  const std::set<PodRef> others = {{"research", "another"}};
  add_usages(*samples, usages, &others);
  EXPECT_THAT(usages, IsEmpty());
}

TEST(Usages, CountOveruseUpToALimit) {
  const auto samples = parse_metrics(sample_of("over_limit_total", "notebook", "9e14"));
  ASSERT_TRUE(samples);
  Usages usages;
  for (int i = 0; i < 20'000; ++i) add_usages(*samples, usages);
  EXPECT_LT(usages.begin()->second.over_limit, 2'000'000'000'000'000);
}

TEST(Usages, AcceptAnyNumber) {
  Usages usages;
  for (const char* value : {"NaN", "+Inf", "-1", "1e300"}) {
    for (const char* metric : {"core_limit_ratio", "memory_used_bytes", "memory_limit_bytes",
                               "over_limit_total", "sm_utilization_ratio"}) {
      const auto samples = parse_metrics(sample_of(metric, "notebook", value));
      ASSERT_TRUE(samples) << value;
      add_usages(*samples, usages);
    }
    EXPECT_THAT(shown_as(top_view(some_pods(), usages, true), "json", false).out,
                HasSubstr("\"granted\": "))
        << value;
  }
}

TEST(Views, AreHarmlessWhateverTheNames) {
  expect_harmless(nodes_view(hostile_nodes(), noon()), 4);
  expect_harmless(cards_view(hostile_nodes(), noon()), 7);
  auto pods = some_pods();
  pods[0].ref = {hostile_text(), hostile_text()};
  pods[0].node = hostile_text();
  pods[0].policy = hostile_text();
  pods[1].containers[0].name = hostile_text();
  pods[2].message = hostile_text();
  expect_harmless(pods_view(pods, true, noon()), 4);
}

TEST(Views, SayThatThereIsNothing) {
  for (const View& view :
       {nodes_view({}, noon()), cards_view({}, noon()), pods_view({}, false, noon())}) {
    const Shown table = shown_as(view, "table", true);
    EXPECT_THAT(table.out, IsEmpty());
    EXPECT_THAT(table.err, HasSubstr(".\n"));
    EXPECT_EQ(shown_as(view, "json", false).out, "{\n  \"items\": []\n}\n");
    EXPECT_THAT(shown_as(view, "name", false).out, IsEmpty());
  }
}

TEST(Views, DoNotCountMigDevicesAsFreeCards) {
  auto nodes = some_nodes();
  nodes[0].cards[2].mig = true;
  const View view = nodes_view(nodes, noon());
  EXPECT_THAT(shown_as(view, "table", false).out, HasSubstr(" 0 + 1 MIG "));
  const Json node = view.json["items"][0];
  EXPECT_EQ(node["cards"], Json::parse(R"({"total": 3, "usable": 3, "free": 0, "freeMig": 1})"));
  EXPECT_EQ(node["core"]["free"], 70);
  EXPECT_EQ(node["memoryMiB"]["free"], 32'768);
}

TEST(Views, HaveColorsAndBarsOnATerminalOnly) {
  const View view = cards_view(some_nodes(), noon());
  EXPECT_THAT(shown_as(view, "table", true).out, HasSubstr("\x1b[34m[##########]\x1b[0m 100/100"));
  EXPECT_THAT(shown_as(view, "table", false).out, Not(HasSubstr("#")));
}

TEST(NodesView, ShowsWhatKeepsPodsFromANode) {
  auto nodes = some_nodes();
  nodes[0].cordoned = true;
  nodes[0].taints = {"gpu=yes:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"};
  nodes[1].cordoned = true;
  const std::string wide = shown_as(nodes_view(nodes, noon()), "wide", false).out;
  EXPECT_THAT(wide, HasSubstr("gpu-1   NotReady, SchedulingDisabled "));
  EXPECT_THAT(wide, HasSubstr(" gpu=yes:NoSchedule,node.kubernetes.io/unreachable:NoExecute "));
  EXPECT_THAT(wide, HasSubstr("gpu-2   SchedulingDisabled, 1 Unhealthy, 1 Cordoned "));
  const Json json = nodes_view(nodes, noon()).json["items"];
  EXPECT_EQ(json[1]["cordoned"], true);
  EXPECT_EQ(json[0]["taints"].size(), 2);
  EXPECT_FALSE(json[2].contains("cordoned") || json[2].contains("taints"));
}

TEST(Views, HaveRedForWhatIsWrongOnly) {
  EXPECT_EQ(color_of(Fill{0, 100}), Color::kNone);
  EXPECT_EQ(color_of(Fill{100, 100}), Color::kBlue);
  EXPECT_EQ(color_of(Fill{101, 100}), Color::kRed);
  const std::string nodes = shown_as(nodes_view(some_nodes(), noon()), "table", true).out;
  EXPECT_THAT(nodes, HasSubstr("\x1b[31m1 Unhealthy, 1 Cordoned\x1b[0m"));
  auto cordoned = some_nodes();
  cordoned[1].cards[1].healthy = true;
  EXPECT_THAT(shown_as(nodes_view(cordoned, noon()), "table", true).out,
              HasSubstr("\x1b[33m1 Cordoned\x1b[0m"));
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', begin)) {
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return longest;
}

TEST(Views, FitIntoTheTerminal) {
  const View view = nodes_view(some_nodes(), noon());
  const std::string without = shown_as(view, ViewFlags{}, false).out;
  // On a terminal without colors every character takes a column.
  const std::string bare = shown_as(view, ViewFlags{}, false, longest_line(without)).out;
  EXPECT_EQ(bare, without);
  for (const std::size_t width : {120U, 100U, 90U}) {
    const std::string cut = shown_as(view, ViewFlags{}, false, width).out;
    EXPECT_LE(longest_line(cut), width);
    EXPECT_THAT(cut, HasSubstr("..."));
  }
  EXPECT_THAT(shown_as(view, ViewFlags{}, true, longest_line(without)).out, Not(HasSubstr("###")));
  EXPECT_FALSE(shown_as(view, ViewFlags{}, true, 1).out.empty());
}

TEST(Views, AreSortedByAColumn) {
  const View view = cards_view(some_nodes(), noon());
  const auto first = [&](const std::string& column) {
    const Shown shown = shown_as(view, ViewFlags{.sort_by = column, .no_headers = true}, false);
    return shown.out.substr(0, 12) + shown.err;
  };
  EXPECT_EQ(first("memory"), "gpu-1   1   ");
  EXPECT_EQ(first("HEALTH"), "gpu-2   2   ");
  EXPECT_THAT(shown_as(view, ViewFlags{.sort_by = "core"}, false).out,
              testing::ContainsRegex("100/100.*\n.*80/100.*\n.*30/100"));
  EXPECT_THAT(first("colour"),
              HasSubstr("--sort-by must be one of node, index, health, pods, core, memory, core, "
                        "memory, model, numa, links, uuid, found \"colour\""));
}

TEST(Overview, HasSumsAndWhatNeedsAttention) {
  auto nodes = some_nodes();
  nodes[0].cards[1].overfull = true;
  nodes[0].cards[1].overfull_detail = "a/b and c/d";
  auto pods = some_pods();
  expect_golden_text(overview_text(nodes, &pods, noon(), false), kGolden + "overview.txt");
  EXPECT_EQ(overview_text({}, nullptr, noon(), false),
            "Cards       0 in 0 nodes\n\nNo node offers cards; kubectl mgpu doctor says why.\n");
  nodes[0].name = hostile_text();
  nodes[0].problem = hostile_text();
  pods[2].message = hostile_text();
  for (const char c : overview_text(nodes, &pods, noon(), false)) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST(HealthText, HasTheTimeSince) {
  EXPECT_EQ(health_text("XID 79 since 2026-01-01T11:56:00Z", noon()), "XID 79 for 4m");
  EXPECT_EQ(health_text("lost since yesterday", noon()), "lost since yesterday");
  EXPECT_EQ(health_text("XID 79", noon()), "XID 79");
}

TEST(Bar, IsFullAndEmptyOnlyWhereTheCardIs) {
  EXPECT_EQ(bar({0, 100}), "[..........]");
  EXPECT_EQ(bar({1, 100}), "[#.........]");
  EXPECT_EQ(bar({99, 100}), "[#########.]");
  EXPECT_EQ(bar({100, 100}), "[##########]");
  EXPECT_EQ(bar({150, 100}), "[##########]");
  EXPECT_EQ(bar({5, 0}), "[..........]");
  EXPECT_EQ(bar({30, 100}, true), "▰▰▰▱▱▱▱▱▱▱");
}

TEST(Yaml, QuotesWhatOthersReadAsAnotherType) {
  EXPECT_EQ(
      yaml_text({{"a", "true"}, {"b", "1.5"}, {"c", "gpu-1"}, {"d", ""}, {"e", 7}, {"f", "No"}}),
      "a: \"true\"\nb: \"1.5\"\nc: gpu-1\nd: \"\"\ne: 7\nf: \"No\"\n");
}

TEST(Grouped, SeparatesThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
  EXPECT_EQ(grouped(-1'000), "-1,000");
}

TEST(PodRow, LeavesOutPodsThatHaveFinished) {
  GpuPod pod = gpu_pod_of(R"({"metadata": {"name": "p"}, "spec": {"containers": [)" +
                          limits_of("app", 50, 1'024) + R"(]}, "status": {"phase": "Failed"}})");
  EXPECT_FALSE(pod_row(pod, kContract));
  pod.pod.phase = "Pending";
  EXPECT_TRUE(pod_row(pod, kContract));
}

TEST(PodRow, SaysWhatIsWrongWithARequest) {
  const auto row = pod_row(gpu_pod_of(R"({"metadata": {"name": "p"}, "spec": {"containers": [)" +
                                      limits_of("app", 50, 0) + "]}}"),
                           kContract);
  ASSERT_TRUE(row);
  EXPECT_TRUE(row->broken);
  EXPECT_THAT(row->message, HasSubstr("container \"app\""));
}

}  // namespace
}  // namespace mgpu::test
