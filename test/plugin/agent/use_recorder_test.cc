#include "plugin/agent/use_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "common/base/log.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/plugin/support/scripted_parts.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// Container "main" of pod ml/a holds 30 % of card 0.
class UseRecorderTest : public testing::Test {
 public:
  using Json = nlohmann::json;

  UseRecorderTest() {
    EXPECT_TRUE(set_log_level("off"));
    pods_.start();
    pod_ = api_.create("a", {{"main", 30, 1'000, "0"}});
    EXPECT_TRUE(test::comes_true([&] { return pods_.find(pod_.uid()).has_value(); }));
    start();
  }
  void start() {
    recorder_ = std::make_unique<UseRecorder>(NodeName("n1"), test::contract(), file(), metrics_,
                                              pods_, [this] { return moment_; });
  }
  std::string file() const { return folder_.path("state/use.json"); }

  void pass(seconds time) {
    moment_.steady += time;
    moment_.wall += time;
  }
  // A sample in which the container uses so much of the card.
  void sample(double percent, bool held = true, bool listed = true) {
    CardUse card{.uuid = CardUuid("GPU-0"), .memory_used = {}, .sm_percent = {}, .processes = {}};
    card.measured = true;
    card.listed = listed;
    ContainerUse use;
    use.owner = {{"ml", "a"}, pod_.uid(), "main", ContainerKind::kApp, 0};
    use.grant = {CardIndex(0), card.uuid, {Percent(30), MiB(1'000)}};
    use.memory_used = MiB(500);
    use.sm_percent = percent;
    use.processes = 1;
    add(held ? std::vector{use} : std::vector<ContainerUse>(), {card});
  }
  void add(const std::vector<ContainerUse>& containers, const std::vector<CardUse>& use) {
    recorder_->add(containers, use, {test::card_facts(0)}, ++reads_);
  }
  // The value of the one series with this name.
  double metric(const std::string& name) {
    const std::string text = metrics_.text();
    const std::size_t at = text.find("\n" + name + "{");
    const std::size_t value = text.find("} ", at);
    EXPECT_NE(value, text.npos) << text;
    return value == text.npos ? -1 : std::stod(text.substr(value + 2));
  }
  Json answer() const { return Json::parse(recorder_->json()); }
  Json item() const {
    const Json json = answer();
    EXPECT_THAT(json["items"], SizeIs(1));
    return json["items"][0];
  }

  test::ScratchFolder folder_;
  test::PodApi api_;
  Pods pods_{NodeName("n1"), api_.transport()};
  kube::Pod pod_;
  Metrics metrics_;
  UseMoment moment_{minutes(1), std::chrono::sys_seconds(seconds(1'767'225'600))};
  std::uint64_t reads_ = 0;
  std::unique_ptr<UseRecorder> recorder_;
};

TEST_F(UseRecorderTest, ServesTheAccount) {
  EXPECT_THAT(answer()["items"], SizeIs(0));
  EXPECT_EQ(answer()["since"], "2026-01-01T00:00:00Z");
  sample(20);
  pass(seconds(10));
  sample(20);
  EXPECT_EQ(answer()["node"], "n1");
  EXPECT_EQ(item()["ownerKind"], "Pod");
  EXPECT_EQ(item()["owner"], "a");
  EXPECT_EQ(item()["cardSecondsGranted"], 3.0);
  EXPECT_EQ(item()["cardSecondsUsed"], 2.0);
  EXPECT_EQ(item()["memoryMiBPeak"], 500);
  EXPECT_THAT(metrics_.text(), HasSubstr("mgpu_container_used_card_seconds_total{"));
}

TEST_F(UseRecorderTest, ASampleWithoutANewReadOfTheCardsMeasuresNothing) {
  sample(20);
  pass(seconds(5));
  --reads_;
  sample(90);
  EXPECT_EQ(item()["samples"], 1);
  EXPECT_EQ(item()["secondsMeasured"], 0.0);
  EXPECT_EQ(item()["cardSecondsGranted"], 1.5);
}

TEST_F(UseRecorderTest, ACardWhoseProcessesAreNotListedIsNotMeasured) {
  sample(20);
  pass(seconds(5));
  sample(20, true, false);
  pass(seconds(5));
  sample(20);
  EXPECT_EQ(item()["samples"], 2);
  EXPECT_EQ(item()["secondsMeasured"], 0.0);
  EXPECT_EQ(item()["cardSecondsGranted"], 3.0);
}

TEST_F(UseRecorderTest, AContainerThatHasEndedStaysInTheAccountAndForAWhileInTheMetrics) {
  sample(20);
  pass(seconds(10));
  sample(20);
  pass(seconds(5));
  api_.remove("a");
  ASSERT_TRUE(test::comes_true([&] { return !pods_.find(pod_.uid()).has_value(); }));
  sample(0, false);
  EXPECT_EQ(item()["running"], false);
  EXPECT_EQ(item()["cardSecondsGranted"], 4.5);
  pass(kEndedSeriesTime);
  sample(0, false);
  EXPECT_THAT(metrics_.text(), HasSubstr("mgpu_container_granted_card_seconds_total{"));
  pass(seconds(1));
  sample(0, false);
  EXPECT_THAT(metrics_.text(), Not(HasSubstr("mgpu_container_granted_card_seconds_total{")));
  EXPECT_EQ(item()["owner"], "a");
}

TEST_F(UseRecorderTest, AContainerThatHasNotStartedHoldsItsShareAndUsesNothing) {
  sample(0, false);
  pass(seconds(10));
  sample(0, false);
  EXPECT_EQ(item()["running"], true);
  EXPECT_EQ(item()["owner"], "a");
  EXPECT_EQ(item()["cardSecondsGranted"], 3.0);
  EXPECT_EQ(item()["cardSecondsUsed"], 0.0);
  EXPECT_EQ(item()["secondsMeasured"], 10.0);
  pass(seconds(10));
  sample(20);
  pass(seconds(10));
  sample(20);
  EXPECT_EQ(item()["cardSecondsGranted"], 9.0) << "the share goes on with the record";
}

TEST_F(UseRecorderTest, ContinuesTheAccountOfAnEarlierProcess) {
  sample(20);
  pass(seconds(10));
  sample(20);
  recorder_->save();
  start();
  recorder_->load();
  EXPECT_EQ(answer()["since"], "2026-01-01T00:00:00Z");
  pass(seconds(30));
  sample(20);
  EXPECT_EQ(item()["cardSecondsGranted"], 12.0);
  EXPECT_EQ(item()["secondsMeasured"], 10.0);
}

// A process that is killed loses what it added after the last save.
TEST_F(UseRecorderTest, MetricsBeginAtZeroAfterACrash) {
  for (int n = 0; n < 10; ++n) {
    sample(20);
    pass(seconds(10));
  }
  sample(20);
  recorder_->save();
  pass(seconds(10));
  sample(20);
  pass(seconds(30));
  start();
  recorder_->load();
  pass(seconds(5));
  sample(20);
  EXPECT_NEAR(metric("mgpu_container_granted_card_seconds_total"), 0.3 * 5, 1e-6);
  EXPECT_NEAR(metric("mgpu_container_used_card_seconds_total"), 0, 1e-6);
  pass(seconds(10));
  sample(20);
  EXPECT_NEAR(metric("mgpu_container_granted_card_seconds_total"), 0.3 * 15, 1e-6);
  EXPECT_NEAR(metric("mgpu_container_used_card_seconds_total"), 0.2 * 10, 1e-6);
  EXPECT_NEAR(item()["cardSecondsGranted"].get<double>(), 0.3 * 155, 1e-3);
}

TEST_F(UseRecorderTest, WritesTheFileEachFewMinutes) {
  sample(20);
  EXPECT_FALSE(std::filesystem::exists(file()));
  pass(kUseSavePeriod);
  sample(20);
  EXPECT_TRUE(std::filesystem::exists(file()));
  std::filesystem::remove(file());
  pass(seconds(10));
  sample(20);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(UseRecorderTest, BeginsANewAccountWhereTheFileCannotBeRead) {
  std::filesystem::create_directory(folder_.path("state"));
  for (const std::string& text : {std::string(), std::string("{"), std::string("{\"version\":9}"),
                                  std::string(kUseFileBytesMax + 1, ' ')}) {
    std::ofstream(file()) << text;
    pass(seconds(1));
    start();
    recorder_->load();
    EXPECT_THAT(answer()["items"], SizeIs(0));
    EXPECT_NE(answer()["since"], "2026-01-01T00:00:00Z");
  }
}

TEST_F(UseRecorderTest, WorksWithoutAFileThatCanBeWritten) {
  std::ofstream(folder_.path("state")) << "not a folder";
  sample(20);
  pass(kUseSavePeriod);
  sample(20);
  recorder_->save();
  EXPECT_EQ(item()["samples"], 2);
}

TEST_F(UseRecorderTest, AnswersWhileSamplesAreAdded) {
  std::atomic<bool> done = false;
  std::counting_semaphore<> has_read(0);
  std::thread reader([&] {
    do {
      EXPECT_THAT(recorder_->json(), HasSubstr("\"node\":\"n1\""));
      has_read.release();
    } while (!done);
  });
  has_read.acquire();
  for (int n = 0; n < 200; ++n) sample(20);
  done = true;
  reader.join();
}

}  // namespace
}  // namespace mgpu::plugin
