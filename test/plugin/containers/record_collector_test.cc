#include "plugin/containers/record_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/log.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/plugin/support/pod_api.h"
#include "test/plugin/support/scripted_parts.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {
using test::device_ids;
using testing::ElementsAre;
using testing::IsEmpty;

class RecordCollectorTest : public testing::Test {
 public:
  RecordCollectorTest() {
    EXPECT_TRUE(set_log_level("off"));
    std::filesystem::create_directory(folder_.path("proc"));
    pods_.start();
    EXPECT_TRUE(test::comes_true([this] { return pods_.listed(); }));
  }

  Record keep(const Record& record) {
    EXPECT_TRUE(records_.keep(record));
    EXPECT_TRUE(records_.save(record, Durability::kProcess));
    EXPECT_TRUE(injector_.inject(record.id, {}));
    return record;
  }
  // Adds a running container to the API server, kubelet's list and the records.
  Record run(const std::string& pod, const std::string& nonce = "a") {
    const kube::Pod made = api_.create(pod, {{"main", 30, 1'000, "1"}});
    EXPECT_TRUE(test::comes_true([&] { return pods_.find(made.uid()).has_value(); }));
    kubelet_.list(pod, "main", device_ids(30));
    Record record = test::started(test::allocated(device_ids(30), nonce), pod, 1);
    record.owner->uid = made.uid();
    return keep(record);
  }
  void end_at_api_server(const Record& record) {
    api_.remove(record.owner->pod.name);
    EXPECT_TRUE(test::comes_true([&] { return pods_.gone(record.owner->uid); }));
  }
  bool kept(const Record& record) const {
    Records on_disk(folder_.path("allocations"));
    EXPECT_TRUE(on_disk.load());
    const bool in_memory = records_.find(record.id).has_value();
    EXPECT_EQ(on_disk.find(record.id).has_value(), in_memory);
    EXPECT_EQ(injector_.injected().contains(record.id), in_memory);
    return in_memory;
  }

  test::ScratchFolder folder_;
  test::PodApi api_;
  test::ScriptedPodResources kubelet_;
  const PodProcesses processes_{folder_.path("proc")};
  test::RecordingInjector injector_;
  Records records_{folder_.path("allocations")};
  Pods pods_{NodeName("n1"), api_.transport()};
  RecordCollector collector_{{records_, injector_, pods_, kubelet_.client(), processes_,
                              [this](const AllocationId& id) { removed_.push_back(id); }},
                             test::kCore,
                             folder_.path()};
  std::vector<AllocationId> removed_;
};

TEST_F(RecordCollectorTest, TellsOfEachRecordThatItRemoves) {
  const Record record = run("a");
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_THAT(removed_, IsEmpty());
  end_at_api_server(record);
  kubelet_.forget("a");
  EXPECT_EQ(collector_.collect(), 1U);
  EXPECT_THAT(removed_, ElementsAre(record.id));
}

TEST_F(RecordCollectorTest, RemovesTheRecordOfAnEndedPod) {
  const Record record = run("a");
  const Record other = run("b", "b");
  end_at_api_server(record);
  kubelet_.forget("a");
  EXPECT_EQ(collector_.collect(), 1U);
  EXPECT_FALSE(kept(record));
  EXPECT_TRUE(kept(other));
  EXPECT_THAT(injector_.removed(), ElementsAre(record.id));
}

TEST_F(RecordCollectorTest, RemovesTheRecordOfAFinishedPod) {
  const Record record = run("a");
  api_.set_phase("a", "Failed");
  ASSERT_TRUE(test::comes_true([&] { return pods_.gone(record.owner->uid); }));
  kubelet_.forget("a");
  EXPECT_EQ(collector_.collect(), 1U);
}

TEST_F(RecordCollectorTest, CallsKubeletOnlyIfAPodMayHaveEnded) {
  run("a");
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_EQ(kubelet_.calls(), 0);
}

TEST_F(RecordCollectorTest, KeepsTheRecordOfAPodThatKubeletLists) {
  const Record record = run("a");
  end_at_api_server(record);
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_TRUE(kept(record));
}

// The pod was deleted with grace period 0.
TEST_F(RecordCollectorTest, KeepsTheRecordOfAPodWithProcesses) {
  const Record record = run("a");
  test::add_process(folder_.path("proc"), 17, record.owner->uid);
  end_at_api_server(record);
  kubelet_.forget("a");
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_TRUE(kept(record));
  test::remove_process(folder_.path("proc"), 17);
  EXPECT_EQ(collector_.collect(), 1U);
}

TEST_F(RecordCollectorTest, KeepsAllRecordsWhileProcessesCannotBeRead) {
  const Record record = run("a");
  std::filesystem::remove(folder_.path("proc"));
  end_at_api_server(record);
  kubelet_.forget("a");
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_TRUE(kept(record));
}

TEST_F(RecordCollectorTest, KeepsAllRecordsWhileKubeletDoesNotAnswer) {
  const Record record = run("a");
  end_at_api_server(record);
  kubelet_.forget("a");
  kubelet_.fail("PodResources does not answer");
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_TRUE(kept(record));
}

TEST_F(RecordCollectorTest, KeepsAllRecordsBeforeThePodsAreListed) {
  const Record record = keep(test::started(test::allocated(device_ids(30), "a"), "nobody", 1));
  Pods silent(NodeName("n1"), api_.transport());
  RecordCollector collector({records_, injector_, silent, kubelet_.client(), processes_},
                            test::kCore, folder_.path());
  EXPECT_EQ(collector.collect(), 0U);
  EXPECT_TRUE(kept(record));
}

// As for a StatefulSet, kubelet lists the new pod under the name of the old one, with its devices.
TEST_F(RecordCollectorTest, ARecreatedPodDoesNotKeepTheOldRecord) {
  const Record before = run("a", "before");
  end_at_api_server(before);
  const Record now = run("a", "now");
  EXPECT_EQ(collector_.collect(), 0U)
      << "without the checkpoint, the devices are those of either pod";
  test::write_checkpoint(folder_.path(),
                         {{now.owner->uid.str(), "main", device_ids(30), now.id.str()}});
  EXPECT_EQ(collector_.collect(), 1U);
  EXPECT_FALSE(kept(before));
  EXPECT_TRUE(kept(now));
}

// kubelet has not received the deletion yet.
TEST_F(RecordCollectorTest, KeepsTheRecordOfARecreatedPodThatKubeletStillRuns) {
  const Record before = run("a", "before");
  test::write_checkpoint(folder_.path(),
                         {{before.owner->uid.str(), "main", device_ids(30), before.id.str()}});
  end_at_api_server(before);
  const kube::Pod now = api_.create("a", {{"main", 30, 1'000, "1"}});
  ASSERT_TRUE(test::comes_true([&] { return pods_.find(now.uid()).has_value(); }));
  EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_TRUE(kept(before));
}

// --- allocated, never started --------------------------------------------------------------------

TEST_F(RecordCollectorTest, RemovesAnAllocationMissingFromTwoCheckpoints) {
  const Record record = keep(test::allocated(device_ids(30), "a"));
  test::write_checkpoint(folder_.path(), {});
  EXPECT_EQ(collector_.collect(), 0U)
      << "kubelet writes its checkpoint after the response to Allocate";
  EXPECT_TRUE(kept(record));
  EXPECT_EQ(collector_.collect(), 1U);
  EXPECT_FALSE(kept(record));
}

TEST_F(RecordCollectorTest, KeepsAnAllocationInTheCheckpoint) {
  const Record record = keep(test::allocated(device_ids(30), "a"));
  test::write_checkpoint(folder_.path(), {{"uid-a", "main", device_ids(30), record.id.str()}});
  EXPECT_EQ(collector_.collect() + collector_.collect(), 0U);
  EXPECT_TRUE(kept(record));
}

TEST_F(RecordCollectorTest, KeepsAnAllocationThatAppearsInTheCheckpoint) {
  const Record record = keep(test::allocated(device_ids(30), "a"));
  test::write_checkpoint(folder_.path(), {});
  EXPECT_EQ(collector_.collect(), 0U);
  test::write_checkpoint(folder_.path(), {{"uid-a", "main", device_ids(30), record.id.str()}});
  EXPECT_EQ(collector_.collect(), 0U);
  test::write_checkpoint(folder_.path(), {});
  EXPECT_EQ(collector_.collect(), 0U) << "it must be missing twice in a row";
  EXPECT_TRUE(kept(record));
}

TEST_F(RecordCollectorTest, KeepsAllocationsIfTheCheckpointCannotBeRead) {
  const Record record = keep(test::allocated(device_ids(30), "a"));
  for (int call = 0; call < 3; ++call) EXPECT_EQ(collector_.collect(), 0U);
  EXPECT_TRUE(kept(record));
}

TEST_F(RecordCollectorTest, ANewAllocationOfTheSameDevicesDoesNotKeepTheOld) {
  const Record before = keep(test::allocated(device_ids(30), "before"));
  const Record now = keep(test::allocated(device_ids(30), "now"));
  test::write_checkpoint(folder_.path(), {{"uid-a", "main", device_ids(30), now.id.str()}});
  EXPECT_EQ(collector_.collect() + collector_.collect(), 1U);
  EXPECT_FALSE(kept(before));
  EXPECT_TRUE(kept(now));
}

}  // namespace
}  // namespace mgpu::plugin
