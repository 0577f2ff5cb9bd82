#include "plugin/monitor/use_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/monitor/monitor_world.h"

namespace mgpu::plugin {
namespace {

using std::chrono::seconds;
using std::chrono::sys_seconds;
using testing::HasSubstr;
using testing::Not;

constexpr char kLabels[] = R"(container="app",index="0",namespace="ml",pod="a",uuid="GPU-0")";

ShareUse used_share(const std::string& uid = "u", std::int64_t from = 0, int on_card = 0) {
  ShareUse use;
  use.pod = {"ml", "a"};
  use.uid = PodUid(uid);
  use.container = "app";
  use.pod_owner = kube::PodOwner{"Deployment", "web"};
  use.grant = grant(on_card, 40, 8'000);
  use.from = sys_seconds(seconds(from));
  use.granted_card_seconds = 40.5;
  use.used_card_seconds = 12.25;
  use.samples = 3;
  use.memory_peak = MiB(2);
  return use;
}

class UseMetricsTest : public testing::Test {
 public:
  std::string text_with(const std::vector<ShareUse>& shares) {
    std::vector<const ShareUse*> all;
    for (const ShareUse& share : shares) all.push_back(&share);
    update_use_metrics(metrics_, all);
    return metrics_.text();
  }
  static std::string line(const std::string& name, const std::string& value) {
    return "\n" + name + "{" + kLabels + "} " + value + "\n";
  }

  Metrics metrics_;
};

TEST_F(UseMetricsTest, HasTheAccountOfAContainer) {
  const std::string text = text_with({used_share()});
  EXPECT_THAT(text, HasSubstr(line("mgpu_container_granted_card_seconds_total", "40.5")));
  EXPECT_THAT(text, HasSubstr(line("mgpu_container_used_card_seconds_total", "12.25")));
  EXPECT_THAT(text, HasSubstr(line("mgpu_container_memory_peak_bytes", "2097152")));
  EXPECT_THAT(text, HasSubstr("# TYPE mgpu_container_used_card_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE mgpu_container_memory_peak_bytes gauge\n"));
}

TEST_F(UseMetricsTest, CountsSinceThisProcessBegan) {
  ShareUse use = used_share();
  use.granted_card_seconds_before = 40;
  use.used_card_seconds_before = 12;
  const std::string text = text_with({use});
  EXPECT_THAT(text, HasSubstr(line("mgpu_container_granted_card_seconds_total", "0.5")));
  EXPECT_THAT(text, HasSubstr(line("mgpu_container_used_card_seconds_total", "0.25")));
  EXPECT_THAT(text, HasSubstr(line("mgpu_container_memory_peak_bytes", "2097152")));
}

TEST_F(UseMetricsTest, HasTheOwnerOfAContainerOnce) {
  const std::string text = text_with({used_share("u", 0, 0), used_share("u", 0, 1)});
  const std::string line =
      R"(mgpu_container_owner_info{container="app",namespace="ml",owner="web",)"
      R"(owner_kind="Deployment",pod="a"} 1)";
  const auto first = text.find(line);
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("mgpu_container_owner_info{", first + 1), std::string::npos);
}

TEST_F(UseMetricsTest, OmitsWhatIsNotKnown) {
  ShareUse unknown = used_share();
  unknown.pod_owner.reset();
  unknown.memory_peak.reset();
  unknown.samples = 0;
  const std::string text = text_with({unknown});
  EXPECT_THAT(text, HasSubstr("mgpu_container_granted_card_seconds_total{"));
  for (const char* name : {"used_card_seconds_total", "memory_peak_bytes", "owner_info"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST_F(UseMetricsTest, OfSeveralPodsOfOneNameHasTheLastOne) {
  ShareUse first = used_share("z", 100);
  ShareUse second = used_share("a", 200);
  second.granted_card_seconds = 7;
  for (const auto& shares : {std::vector{first, second}, std::vector{second, first}}) {
    const std::string text = text_with(shares);
    EXPECT_THAT(text, HasSubstr(line("mgpu_container_granted_card_seconds_total", "7")));
    EXPECT_THAT(text, Not(HasSubstr("40.5")));
  }
}

TEST_F(UseMetricsTest, OfSeveralPodsOfOneNameHasTheOneThatRunsAfterTheClockWentBack) {
  const ShareUse ended = used_share("z", 200);
  ShareUse running = used_share("a", 100);
  running.running = true;
  running.granted_card_seconds = 7;
  for (const auto& shares : {std::vector{ended, running}, std::vector{running, ended}}) {
    const std::string text = text_with(shares);
    EXPECT_THAT(text, HasSubstr(line("mgpu_container_granted_card_seconds_total", "7")));
    EXPECT_THAT(text, Not(HasSubstr("40.5")));
  }
}

TEST_F(UseMetricsTest, RemovesSeriesOfRemovedContainers) {
  (void)text_with({used_share()});
  EXPECT_EQ(text_with({}), "");
}

}  // namespace
}  // namespace mgpu::plugin
