#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugin/monitor/limits.h"
#include "plugin/monitor/metrics.h"
#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCardZero[] = R"(index="0",node="n1",uuid="GPU-0")";
constexpr char kContainer[] = R"(container="app",index="0",namespace="ml",pod="a",uuid="GPU-0")";

CardReading reading(int n, const std::string& health = std::string(kHealthy)) {
  return {{CardIndex(n), card(n), "V100", MiB(32'510), health, ""}, MiB(1'024), 37.5};
}

class MonitorMetricsTest : public ::testing::Test {
 public:
  void update(const std::vector<CardReading>& cards, const Joined& joined,
              const std::vector<Overuse>& over = {}) {
    monitor_.update(cards, joined, over, time_);
  }
  Joined used(std::optional<double> sm_percent) {
    auto running = process(0, 11, 512, "a", "app");
    running.sm_percent = sm_percent;
    return join(
        {record("a", "app", {grant(0, 30, 8'192)}), record("b", "app", {grant(0, 20, 1'024)})},
        {running}, names({{"a", "app"}}));
  }
  void expect_series(const std::string& name, const std::string& labels, const std::string& value) {
    EXPECT_THAT(metrics_.text(), HasSubstr("\n" + name + "{" + labels + "} " + value + "\n"));
  }
  void expect_no(const std::string& text) { EXPECT_THAT(metrics_.text(), Not(HasSubstr(text))); }

  // A sample after so long, in which the container uses so much of the card.
  void sample(std::chrono::milliseconds after, std::optional<double> percent, bool fresh = true) {
    Joined joined = used(percent);
    joined.containers[0].known_percent = percent;
    time_ = {time_.now + after, fresh};
    update({reading(0)}, joined);
  }
  void expect_counters(const std::string& granted, const std::string& used) {
    expect_series("mgpu_container_granted_card_seconds_total", kContainer, granted);
    expect_series("mgpu_container_used_card_seconds_total", kContainer, used);
  }

  Metrics metrics_;
  SampleTime time_;
  MonitorMetrics monitor_{metrics_, NodeName("n1"), "cards.yaml"};
};

TEST_F(MonitorMetricsTest, HasCards) {
  Joined joined = used(20);
  joined.unmanaged[card(0)] = MiB(1);
  update({reading(0), reading(1, "XID 79")}, joined);
  expect_series("mgpu_card_info",
                R"(driver="cards.yaml",index="0",model="V100",node="n1",uuid="GPU-0")", "1");
  expect_series("mgpu_card_memory_total_bytes", kCardZero, "34089205760");
  expect_series("mgpu_card_memory_used_bytes", kCardZero, "1073741824");
  expect_series("mgpu_card_memory_allocated_bytes", kCardZero, "9663676416");
  expect_series("mgpu_card_core_allocated_ratio", kCardZero, "0.5");
  expect_series("mgpu_card_sm_utilization_ratio", kCardZero, "0.375");
  expect_series("mgpu_card_healthy", kCardZero, "1");
  expect_series("mgpu_unmanaged_memory_bytes", kCardZero, "1048576");
  const std::string second = R"(index="1",node="n1",uuid="GPU-1")";
  expect_series("mgpu_card_healthy", second, "0");
  expect_series("mgpu_card_memory_allocated_bytes", second, "0");
  expect_series("mgpu_unmanaged_memory_bytes", second, "0");
}

TEST_F(MonitorMetricsTest, HasContainers) {
  update({reading(0)}, used(15));
  expect_series("mgpu_container_memory_limit_bytes", kContainer, "8589934592");
  expect_series("mgpu_container_memory_used_bytes", kContainer, "536870912");
  expect_series("mgpu_container_core_limit_ratio", kContainer, "0.3");
  expect_series("mgpu_container_sm_utilization_ratio", kContainer, "0.15");
  expect_series("mgpu_container_core_usage_ratio", kContainer, "0.5");  // 15 of 30
  expect_series("mgpu_container_processes", kContainer, "1");
  expect_series("mgpu_container_over_limit_total", kContainer, "0");
}

TEST_F(MonitorMetricsTest, OmitsUnknownValues) {
  CardReading unknown = reading(0);
  unknown.memory_used.reset();
  unknown.sm_percent.reset();
  update({unknown}, used({}));
  expect_no("mgpu_card_memory_used_bytes{");
  expect_no("mgpu_card_sm_utilization_ratio{");
  expect_no("mgpu_container_sm_utilization_ratio{");
  expect_no("mgpu_container_core_usage_ratio{");
  expect_series("mgpu_container_memory_used_bytes", kContainer, "536870912");
}

TEST_F(MonitorMetricsTest, RemovesSeriesOfRemovedContainersAndCards) {
  update({reading(0), reading(1)}, used(15));
  update({reading(1)}, {});
  expect_no("mgpu_container_");
  expect_no("GPU-0");
  expect_series("mgpu_card_healthy", R"(index="1",node="n1",uuid="GPU-1")", "1");
  update({}, {});
  EXPECT_EQ(metrics_.text(), "");
}

TEST_F(MonitorMetricsTest, CountsOveruseWhileTheContainerExists) {
  const Joined joined = used(15);
  const Overuse over{joined.containers[0].owner, joined.containers[0].grant, MiB(9'000)};
  update({reading(0)}, joined, {over});
  update({reading(0)}, joined);
  update({reading(0)}, joined, {over});
  expect_series("mgpu_container_over_limit_total", kContainer, "2");
  update({reading(0)}, {});
  update({reading(0)}, joined);
  expect_series("mgpu_container_over_limit_total", kContainer, "0");
}

TEST_F(MonitorMetricsTest, HasOneSeriesForPodsOfTheSameName) {
  Record old = record("a", "app", {grant(0, 30, 8'192)});
  old.owner->uid = PodUid("before");
  for (const bool old_first : {true, false}) {
    std::vector<Record> records{record("a", "app", {grant(0, 30, 8'192)})};
    records.insert(old_first ? records.begin() : records.end(), old);
    update({reading(0)}, join(records, {process(0, 11, 512, "a", "app")}, {}));
    const std::string text = metrics_.text();
    const std::string series = "mgpu_container_memory_used_bytes{";
    EXPECT_EQ(text.find(series, text.find(series) + 1), std::string::npos);
    expect_series("mgpu_container_memory_used_bytes", kContainer, "536870912");
  }
}

TEST_F(MonitorMetricsTest, AcceptsAmountsOfAnySize) {
  std::vector<Record> records;
  for (int i = 0; i < 10; ++i) {
    records.push_back(record(std::to_string(i), "app", {grant(0, Percent::kMax, MiB::kMax)}));
  }
  update({reading(0)}, join(records, {}, {}));
  expect_series("mgpu_card_core_allocated_ratio", kCardZero, "10");
}

// --- counters ------------------------------------------------------------------------------------

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(MonitorMetricsTest, CountsFromTheFirstSampleOn) {
  time_.now += std::chrono::hours(1);
  sample(seconds(0), 20);
  expect_counters("0", "0");
  sample(seconds(5), 20);
  sample(milliseconds(2'500), 40);
  expect_counters("2.25", "2");
  EXPECT_THAT(metrics_.text(),
              HasSubstr("# TYPE mgpu_container_granted_card_seconds_total counter\n"));
}

TEST_F(MonitorMetricsTest, ASampleWithoutANewReadOfTheCardsMeasuresNothing) {
  sample(seconds(0), 20);
  sample(seconds(5), 90, false);
  expect_counters("1.5", "0");
  sample(seconds(5), 20);
  expect_counters("3", "2");
}

TEST_F(MonitorMetricsTest, TimeThatWasNotMeasuredIsGrantedAndNotUsed) {
  sample(seconds(0), {});
  sample(seconds(5), {});
  expect_series("mgpu_container_granted_card_seconds_total", kContainer, "1.5");
  expect_no("mgpu_container_used_card_seconds_total{");
  sample(seconds(5), 20);
  expect_counters("3", "1");
  sample(seconds(5), {});
  sample(kMeasuredGapMax, 20);
  sample(kMeasuredGapMax + milliseconds(1'000), 20);
  expect_counters("13.8", "4");
}

TEST_F(MonitorMetricsTest, AContainerThatReturnsCountsFromZero) {
  sample(seconds(0), 20);
  sample(seconds(10), 20);
  expect_counters("3", "2");
  update({reading(0)}, {});
  expect_no("mgpu_container_granted_card_seconds_total{");
  sample(seconds(10), 20);
  expect_counters("0", "0");
}

TEST_F(MonitorMetricsTest, NamesTheOwnerOfAContainerOnce) {
  Joined joined = join({record("a", "app", {grant(0, 30, 1), grant(1, 30, 1)})}, {}, {});
  for (ContainerUse& use : joined.containers) use.pod_owner = {"Deployment", "web"};
  update({reading(0)}, joined);
  const std::string labels =
      R"(container="app",namespace="ml",owner="web",owner_kind="Deployment",pod="a")";
  expect_series("mgpu_container_owner_info", labels, "1");
  update({reading(0)}, used(20));
  expect_no("mgpu_container_owner_info{");
}

}  // namespace
}  // namespace mgpu::plugin
