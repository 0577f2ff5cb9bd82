#include "plugin/agent/monitoring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "common/base/log.h"
#include "plugin/share/look.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/plugin/support/scripted_parts.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string kContainerId(64, 'a');

// Container "main" of pod ml/a holds 1,000 MiB of card 1. Process 11 belongs to it.
class MonitoringTest : public testing::Test {
 public:
  MonitoringTest() {
    EXPECT_TRUE(set_log_level("off"));
    inventory_.start();
    pods_.start();
    const kube::Pod pod = api_.create("a", {{"main", 30, 1'000, "1"}});
    api_.set_container_id("a", "main", kContainerId);
    EXPECT_TRUE(test::comes_true([&] {
      const auto seen = pods_.find(pod.uid());
      return inventory_.state().read && seen && !seen->container_statuses.empty();
    }));
    Record record = test::started(test::allocated(test::device_ids(30), "a"), "a", 1);
    record.owner->uid = pod.uid();
    EXPECT_TRUE(records_.keep(record));
    run_process(11, "0::/kubepods/pod" + pod.metadata.uid + "/" + kContainerId + "\n");
    monitor({.node = NodeName("n1"), .proc_folder = folder_.path()});
  }
  void monitor(Monitoring::Options options) {
    monitoring_.emplace(
        Monitoring::Dependencies{metrics_, inventory_, pods_, records_, pages_, reserved_},
        std::move(options));
  }
  ~MonitoringTest() override { inventory_.stop(); }

  void run_process(std::int64_t pid, const std::string& cgroup) {
    const std::string folder = folder_.path(std::to_string(pid));
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/cgroup") << cgroup;
    std::ofstream(folder + "/stat") << pid << " (python3) S 1 10 10 0 -1 4194560 100 0 0 0 5 6 0 0"
                                    << " 20 0 1 0 500 10000 200 0\n";
  }
  // Process `pid` uses `memory` MiB of card 1.
  void use(std::int64_t pid, std::int64_t memory, bool without_mps = false) {
    CardUse card{CardUuid("GPU-1"), MiB(memory), 12.5, {{pid, MiB(memory), 12.5, without_mps}}};
    cards_->say_use({card});
    EXPECT_TRUE(test::comes_true([&] {
      const auto seen = inventory_.use();
      return seen.size() == 1 && seen[0].processes == card.processes;
    }));
  }
  std::string sampled() {
    sample();
    return metrics_.text();
  }
  void sample() {
    const Monitoring::Found found = monitoring_->sample(now_);
    reported_.insert(reported_.end(), found.over.begin(), found.over.end());
    without_mps_.insert(without_mps_.end(), found.without_mps.begin(), found.without_mps.end());
  }

  test::ScratchFolder folder_;
  test::PodApi api_;
  test::ScriptedCards* cards_ = new test::ScriptedCards(test::found_cards(2));
  Inventory inventory_{std::unique_ptr<CardSource>(cards_),
                       {.load_known = [] { return KnownCards(); },
                        .save_known = [](const KnownCards&) { return true; },
                        .on_change = [](const InventoryState&, const InventoryState&) {},
                        .now = [] { return "2026-01-02T00:00:00Z"; }}};
  Pods pods_{NodeName("n1"), api_.transport()};
  Records records_{folder_.path("allocations")};
  const SharePages pages_{folder_.path("share"), MiB(528)};
  ReservedMemory reserved_{pages_, records_};
  Metrics metrics_;
  std::vector<Overuse> reported_;
  std::vector<ContainerUse> without_mps_;
  Instant now_{};
  std::optional<Monitoring> monitoring_;
};

TEST_F(MonitoringTest, FindsTheProcessesOfTheCards) {
  use(11, 500);
  const auto processes = monitoring_->sample(now_).processes;
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_EQ(processes[0].program, "python3");
}

TEST_F(MonitoringTest, AssignsAProcessToItsContainer) {
  use(11, 500);
  const std::string text = sampled();
  EXPECT_THAT(text, HasSubstr("mgpu_container_memory_used_bytes{container=\"main\""));
  EXPECT_THAT(text, HasSubstr("pod=\"a\""));
  EXPECT_THAT(text, HasSubstr(std::to_string(500 << 20)));
  EXPECT_THAT(text, HasSubstr("mgpu_card_healthy{index=\"0\",node=\"n1\",uuid=\"GPU-0\"} 1"));
}

// The driver tells of 700 MiB, and no process has reserved anything.
TEST_F(MonitoringTest, CountsAgainstTheLimitWhatTheLibraryHasNotCounted) {
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0) << "this test needs root";
  ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  const CardUuid card("GPU-6d677075-0000-4000-8000-000000000001");
  Record record = records_.bound().front();
  record.cards.front().uuid = card;
  ASSERT_TRUE(records_.keep(record));
  ASSERT_TRUE(pages_.prepare(record, false));
  reserved_.read();
  std::vector<ContainerUse> uncounted;
  for (std::int64_t i = 0; i < 3; ++i) {
    const std::int64_t memory = 700 + i;
    cards_->say_use({CardUse{card, MiB(memory), 12.5, {{11, MiB(memory), 12.5, false}}}});
    ASSERT_TRUE(test::comes_true([&] {
      return inventory_.use().size() == 1 && inventory_.use()[0].memory_used == MiB(memory);
    }));
    uncounted = monitoring_->sample(now_).uncounted;
    EXPECT_THAT(uncounted, SizeIs(i == 2 ? 1 : 0));
  }
  EXPECT_THAT(metrics_.text(), HasSubstr("mgpu_container_memory_uncounted_bytes{"));
  std::uint8_t uuid[16];
  share::Look look;
  ASSERT_TRUE(share::read_uuid(card.str().c_str(), uuid));
  ASSERT_EQ(share::look_at((pages_.folder_of(record.id) + "/" + card.str()).c_str(), uuid, &look),
            nullptr);
  EXPECT_EQ(look.overhead_bytes, std::uint64_t{700} << 20);
  pages_.remove(record.id);
}

TEST_F(MonitoringTest, OmitsTheUseOfACardWithoutASample) {
  const std::string text = sampled();
  EXPECT_THAT(text, Not(HasSubstr("mgpu_card_memory_used_bytes{")));
  EXPECT_THAT(text, HasSubstr("mgpu_card_memory_total_bytes{"));
}

TEST_F(MonitoringTest, ReportsAContainerThatExceedsItsMemoryOnce) {
  use(11, 2'000);
  sample();
  EXPECT_THAT(reported_, IsEmpty()) << "it must exceed its memory in two samples";
  for (int more = 0; more < 3; ++more) sample();
  ASSERT_THAT(reported_, SizeIs(1));
  EXPECT_EQ(reported_[0].owner.pod, (PodRef{"ml", "a"}));
  EXPECT_EQ(reported_[0].used, MiB(2'000));
  EXPECT_THAT(monitoring_->over(), SizeIs(1));
}

TEST_F(MonitoringTest, AContainerWithinItsMemoryIsNotOver) {
  use(11, 2'000);
  for (int samples = 0; samples < 2; ++samples) sample();
  use(11, 900);
  sample();
  EXPECT_THAT(monitoring_->over(), IsEmpty());
}

TEST_F(MonitoringTest, ReportsAContainerThatBypassesMpsOnce) {
  monitor({.node = NodeName("n1"), .proc_folder = folder_.path(), .context = MiB(), .mps = true});
  use(11, 500, true);
  for (int samples = 0; samples < 4; ++samples) sample();
  ASSERT_THAT(without_mps_, SizeIs(1));
  EXPECT_EQ(without_mps_[0].owner.pod, (PodRef{"ml", "a"}));
  EXPECT_THAT(sampled(), HasSubstr("mgpu_container_processes_without_mps{"));
}

TEST_F(MonitoringTest, WithoutMpsNothingBypassesIt) {
  use(11, 500, true);
  for (int samples = 0; samples < 4; ++samples) sample();
  EXPECT_THAT(without_mps_, IsEmpty());
}

TEST_F(MonitoringTest, AProcessOutsideOfContainersIsUnmanaged) {
  run_process(12, "0::/system.slice/sshd.service\n");
  use(12, 2'000);
  for (int samples = 0; samples < 3; ++samples) sample();
  EXPECT_THAT(reported_, IsEmpty());
  EXPECT_THAT(sampled(), HasSubstr("mgpu_unmanaged_memory_bytes"));
}

TEST_F(MonitoringTest, RemovesMetricsOfRemovedContainers) {
  use(11, 500);
  ASSERT_THAT(sampled(), HasSubstr("pod=\"a\""));
  for (const auto& record : records_.all()) records_.remove(record.id);
  EXPECT_THAT(sampled(), Not(HasSubstr("pod=\"a\"")));
}

// --- what counts ---------------------------------------------------------------------------------

TEST_F(MonitoringTest, CountsWhatAContainerWasGrantedAndHasUsed) {
  use(11, 500);
  sample();
  now_ += std::chrono::seconds(8);
  const std::uint64_t before = inventory_.reads();
  inventory_.read_soon();
  ASSERT_TRUE(test::comes_true([&] { return inventory_.reads() > before; }));
  const std::string text = sampled();
  const std::string labels = R"({container="main",index="1",namespace="ml",pod="a",uuid="GPU-1"} )";
  EXPECT_THAT(text, HasSubstr("mgpu_container_granted_card_seconds_total" + labels + "2.4\n"));
  EXPECT_THAT(text, HasSubstr("mgpu_container_used_card_seconds_total" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr(R"(mgpu_container_owner_info{container="main",namespace="ml",)"
                              R"(owner="a",owner_kind="Pod",pod="a"} 1)"));
}

// An idle card is measured, one whose processes the driver does not list or measure is not.
TEST_F(MonitoringTest, AContainerWithoutASampleUsedNothingOnlyWhereThatIsCertain) {
  const auto counter_of = [&](const CardUse& card) {
    const std::uint64_t before = inventory_.reads();
    cards_->say_use({card});
    inventory_.read_soon();
    // The first of these reads may have begun before.
    EXPECT_TRUE(test::comes_true([&] { return inventory_.reads() > before + 1; }));
    monitor({.node = NodeName("n1"), .proc_folder = folder_.path()});
    const std::string text = sampled();
    const std::size_t at = text.find("\nmgpu_container_used_card_seconds_total{");
    return at == text.npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  CardUse card{CardUuid("GPU-1"), MiB(7), 50.0, {}, true};
  EXPECT_THAT(counter_of(card), testing::EndsWith("} 0"));
  card.listed = false;
  EXPECT_EQ(counter_of(card), "");
  card.listed = true;
  card.measured = false;
  EXPECT_EQ(counter_of(card), "");
  card.measured = true;
  card.clients_measured = false;
  EXPECT_THAT(counter_of(card), testing::EndsWith("} 0"));
  card.processes = {{11, MiB(500), std::nullopt, false}};
  EXPECT_EQ(counter_of(card), "");
}

// The scheduler may give its share to another pod, although kubelet has not removed it.
TEST_F(MonitoringTest, AnEndedPodWithoutProcessesHoldsNothing) {
  use(11, 500);
  api_.set_phase("a", "Succeeded");
  ASSERT_TRUE(test::comes_true([&] { return pods_.all().front().finished(); }));
  EXPECT_THAT(sampled(), HasSubstr("pod=\"a\""));
  use(12, 500);  // has ended
  EXPECT_THAT(sampled(), Not(HasSubstr("pod=\"a\"")));
}

}  // namespace
}  // namespace mgpu::plugin
