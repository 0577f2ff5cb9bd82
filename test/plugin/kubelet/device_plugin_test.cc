#include "plugin/kubelet/device_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "plugin/kubelet/limits.h"
#include "plugin/kubelet/socket_file.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/support/resource_names.h"

namespace mgpu::plugin {
namespace {

using test::eventually;
using test::FakeKubelet;
using test::kCore;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using Ids = std::vector<std::string>;

const Ids kTwo = {"c0", "c1"};

// The problems that on_registration was called with, in order; "" for registered.
class Reports {
 public:
  void add(const Result<void>& outcome) {
    const std::lock_guard lock(mutex_);
    problems_.push_back(outcome ? "" : outcome.error().message);
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return problems_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> problems_;
};

class DevicePluginTest : public ::testing::Test {
 public:
  std::unique_ptr<DevicePlugin> plugin(DevicePluginHandlers handlers = {}) {
    if (!handlers.allocate) handlers.allocate = [](const Ids&) { return AllocateResponse{}; };
    handlers.on_registration = [this](const Result<void>& outcome) { reports_.add(outcome); };
    return std::make_unique<DevicePlugin>(
        DevicePluginOptions{.resource = kCore, .folder = folder_.path(), .socket_prefix = "core"},
        kTwo, std::move(handlers));
  }
  void start_kubelet() { kubelet_ = std::make_unique<FakeKubelet>(folder_.path()); }
  // The names of the sockets of the plugin that exist.
  std::vector<std::string> sockets() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("core")) names.push_back(name);
    }
    return names;
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  bool kubelet_has(const Ids& devices) const {
    return eventually([&] { return kubelet_->devices(kCore) == devices; });
  }
  static bool becomes_registered(const DevicePlugin& plugin) {
    return eventually([&] { return plugin.registered(); });
  }
  bool reports(const std::string& part) const {
    return eventually([&] {
      return std::ranges::any_of(reports_.all(), [&](const std::string& problem) {
        return problem.find(part) != std::string::npos;
      });
    });
  }

  test::TemporaryFolder folder_;
  Reports reports_;
  std::unique_ptr<FakeKubelet> kubelet_;
};

// --- registration --------------------------------------------------------------------------------

TEST_F(DevicePluginTest, RegistersItsSocketAndSendsItsDevices) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(becomes_registered(*plugin));
  EXPECT_TRUE(kubelet_has(kTwo));
  ASSERT_THAT(sockets(), SizeIs(1));
  EXPECT_THAT(sockets()[0], MatchesRegex("core-[0-9a-f]{8}.sock"));
  EXPECT_THAT(kubelet_->registrations(), ElementsAre(kCore + " " + sockets()[0] + " v1beta1"));
  ASSERT_TRUE(eventually([&] { return !reports_.all().empty(); }));
  EXPECT_THAT(reports_.all(), ElementsAre(""));
}

TEST_F(DevicePluginTest, WaitsForKubeletAndReportsItOnce) {
  const auto plugin = this->plugin();
  ASSERT_TRUE(reports("kubelet does not run: \"" + path("kubelet.sock") + "\" does not exist"));
  EXPECT_FALSE(plugin->registered());
  EXPECT_THAT(sockets(), IsEmpty());
  start_kubelet();
  ASSERT_TRUE(becomes_registered(*plugin));
  ASSERT_TRUE(eventually([&] { return reports_.all().size() >= 2; }));
  EXPECT_THAT(reports_.all(), SizeIs(2));
}

TEST_F(DevicePluginTest, RegistersAgainAfterKubeletRestarts) {
  start_kubelet();
  const auto plugin = this->plugin();
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(kubelet_has(kTwo));
    kubelet_.reset();
    ASSERT_TRUE(eventually([&] { return !plugin->registered(); }));
    start_kubelet();
  }
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_TRUE(becomes_registered(*plugin));
}

TEST_F(DevicePluginTest, DoesNotRegisterAgainWhenItWasReplaced) {
  start_kubelet();
  std::atomic<bool> replaced = false;
  DevicePluginHandlers handlers;
  handlers.may_register = [&] { return replaced ? error("it was replaced") : Result<void>(); };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(becomes_registered(*plugin));
  replaced = true;
  kubelet_.reset();
  start_kubelet();
  EXPECT_TRUE(reports("it was replaced"));
  EXPECT_THAT(kubelet_->registrations(), IsEmpty());
  EXPECT_FALSE(plugin->registered());
}

TEST_F(DevicePluginTest, RegistersAgainWhenAKilledKubeletLeftItsSocket) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(becomes_registered(*plugin));
  kubelet_.reset();
  test::leave_dead_socket(path("kubelet.sock"));
  ASSERT_TRUE(reports("did not register"));
  start_kubelet();
  EXPECT_TRUE(kubelet_has(kTwo));
}

TEST_F(DevicePluginTest, RegistersAgainWhenItsSocketIsRemoved) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(becomes_registered(*plugin));
  const std::string first = sockets()[0];
  std::filesystem::remove(path(first));
  ASSERT_TRUE(eventually([&] { return kubelet_->registrations().size() >= 2; }));
  EXPECT_TRUE(kubelet_has(kTwo));
  EXPECT_THAT(sockets(), AllOf(SizeIs(1), Not(Contains(first))));
}

TEST_F(DevicePluginTest, RegistersAgainWhenKubeletEndsTheStream) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(kubelet_has(kTwo));
  kubelet_->cut_stream(kCore);
  ASSERT_TRUE(eventually([&] { return kubelet_->registrations().size() >= 2; }));
  EXPECT_TRUE(kubelet_has(kTwo));
  EXPECT_TRUE(becomes_registered(*plugin));
}

TEST_F(DevicePluginTest, RetriesWhileKubeletRefusesAndReportsTheReasonOnce) {
  start_kubelet();
  kubelet_->refuse("requested API version \"v1beta1\" is not supported");
  const auto plugin = this->plugin();
  ASSERT_TRUE(eventually([&] { return kubelet_->registrations().size() >= 3; }));
  EXPECT_THAT(reports_.all(), ElementsAre(AllOf(HasSubstr("did not register " + kCore),
                                                HasSubstr("not supported"))));
  EXPECT_FALSE(plugin->registered());
  kubelet_->refuse("");
  EXPECT_TRUE(becomes_registered(*plugin));
}

TEST_F(DevicePluginTest, CancelsARegistrationWhenKubeletRestarts) {
  start_kubelet();
  kubelet_->hold_registrations(true);
  const auto plugin = this->plugin();
  ASSERT_TRUE(eventually([&] { return !kubelet_->registrations().empty(); }));
  kubelet_.reset();
  start_kubelet();
  EXPECT_TRUE(kubelet_has(kTwo));
}

TEST_F(DevicePluginTest, MayBeDestroyedDuringARegistration) {
  start_kubelet();
  kubelet_->hold_registrations(true);
  auto plugin = this->plugin();
  ASSERT_TRUE(eventually([&] { return !kubelet_->registrations().empty(); }));
  plugin.reset();
  EXPECT_THAT(sockets(), IsEmpty());
}

TEST_F(DevicePluginTest, ReportsWhyItCannotServe) {
  const std::string deep(120, 'd');
  std::filesystem::create_directory(path(deep));
  std::ofstream(path(deep) + "/kubelet.sock") << "any file";
  const DevicePlugin plugin(
      {.resource = kCore, .folder = path(deep), .socket_prefix = "core"}, kTwo,
      {.allocate = [](const Ids&) { return AllocateResponse{}; },
       .pre_start = {},
       .on_registration = [this](const Result<void>& outcome) { reports_.add(outcome); }});
  EXPECT_TRUE(reports("must have at most 107 bytes"));
}

// --- the socket ----------------------------------------------------------------------------------

TEST_F(DevicePluginTest, RemovesTheSocketsOfKilledProcesses) {
  const auto other = plugin();
  start_kubelet();
  ASSERT_TRUE(becomes_registered(*other));
  const std::string kept = sockets()[0];
  for (const char* name : {"core.sock", "core-0123abcd.sock", "other.sock"}) {
    test::leave_dead_socket(path(name));
  }
  const auto plugin = this->plugin();
  ASSERT_TRUE(becomes_registered(*plugin));
  EXPECT_THAT(sockets(), AllOf(SizeIs(2), Contains(kept), Not(Contains("core.sock"))));
  EXPECT_TRUE(std::filesystem::exists(path("other.sock")));
}

TEST_F(DevicePluginTest, RemovesItsSocketAndLeavesNoFiles) {
  start_kubelet();
  auto plugin = this->plugin();
  ASSERT_TRUE(becomes_registered(*plugin));
  plugin.reset();
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ElementsAre("kubelet.sock"));
}

TEST_F(DevicePluginTest, TwoProcessesHaveTwoSockets) {
  start_kubelet();
  auto old = plugin();
  ASSERT_TRUE(becomes_registered(*old));
  const auto successor = plugin();
  ASSERT_TRUE(becomes_registered(*successor));
  EXPECT_THAT(sockets(), SizeIs(2));
  old.reset();
  // When the old stream ends, kubelet 1.36 removes the successor, which then registers again.
  ASSERT_TRUE(
      eventually([&] { return kubelet_->devices(kCore) == kTwo && successor->registered(); }));
}

// A pod that kubelet admits while it has no plugin fails permanently.
TEST_F(DevicePluginTest, AProcessThatLeavesToItsSuccessorLeavesNoGap) {
  start_kubelet();
  auto old = plugin();
  ASSERT_TRUE(becomes_registered(*old));
  auto successor = plugin();
  ASSERT_TRUE(becomes_registered(*successor));
  ASSERT_TRUE(eventually([&] { return kubelet_->lists(kCore) == 2; }));
  std::atomic<bool> done = false;
  std::atomic<int> failed = 0;
  std::thread pods([&] {
    while (!done) failed += kubelet_->allocate(kCore, {{"c0"}}) ? 0 : 1;
  });
  old->leave_to_successor();
  old.reset();
  // It registers once more when it is alone, so that kubelet notices its end.
  EXPECT_TRUE(eventually([&] { return kubelet_->lists(kCore) == 3; }));
  EXPECT_TRUE(successor->registered());
  done = true;
  pods.join();
  EXPECT_EQ(failed, 0);
  EXPECT_THAT(kubelet_->registrations(), SizeIs(4));
  successor.reset();
  EXPECT_TRUE(eventually([&] { return !kubelet_->devices(kCore); }));
  EXPECT_THAT(sockets(), IsEmpty());
}

TEST_F(DevicePluginTest, EachResourceHasItsOwnSocket) {
  start_kubelet();
  const auto core = this->plugin();
  const std::string memory_name = "vke.volcengine.com/mgpu-memory";
  const Ids one = {"0"};
  const DevicePlugin memory(
      {.resource = memory_name, .folder = folder_.path(), .socket_prefix = "memory"}, one,
      {.allocate = [](const Ids&) { return AllocateResponse{}; },
       .pre_start = {},
       .on_registration = {}});
  EXPECT_TRUE(kubelet_has(kTwo));
  EXPECT_TRUE(eventually([&] { return kubelet_->devices(memory_name) == one; }));
}

// --- the list ------------------------------------------------------------------------------------

TEST_F(DevicePluginTest, SendsAListThatDiffersFromTheLast) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(kubelet_has(kTwo));
  const Ids first = {"c0"};
  plugin->set_devices(first);
  ASSERT_TRUE(kubelet_has(first));
  plugin->set_devices(first);
  plugin->set_devices({});
  ASSERT_TRUE(kubelet_has({}));
  EXPECT_EQ(kubelet_->lists(kCore), 3);
}

TEST_F(DevicePluginTest, SendsTheListThatWasSetBeforeKubeletStarted) {
  const auto plugin = this->plugin();
  const Ids one = {"c7"};
  plugin->set_devices(one);
  start_kubelet();
  EXPECT_TRUE(kubelet_has(one));
}

TEST_F(DevicePluginTest, SendsAsManyDevicesAsKubeletAccepts) {
  start_kubelet();
  const auto plugin = this->plugin();
  Ids many(220'752);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::to_string(100'000 + i);
  ASSERT_TRUE(kubelet_has(kTwo));
  plugin->set_devices(many);
  EXPECT_TRUE(kubelet_has(many));
}

TEST_F(DevicePluginTest, DoesNotSendAListThatIsTooLargeForKubelet) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(kubelet_has(kTwo));
  Ids many(220'753);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = std::to_string(100'000 + i);
  plugin->set_devices(many);
  const Ids one = {"c7"};
  plugin->set_devices(one);
  EXPECT_TRUE(kubelet_has(one));
  EXPECT_THAT(kubelet_->registrations(), SizeIs(1));
}

// --- Allocate ------------------------------------------------------------------------------------

TEST_F(DevicePluginTest, ReturnsTheAllocationOfTheHandler) {
  start_kubelet();
  DevicePluginHandlers handlers;
  handlers.allocate = [](const Ids& ids) {
    AllocateResponse allocated;
    allocated.environment = {{"IDS", std::to_string(ids.size())}, {"EMPTY", ""}};
    allocated.cdi_devices = {"vendor.com/mgpu=" + ids.front()};
    return allocated;
  };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  const auto answer = kubelet_->allocate(kCore, {{"c1", "c0"}});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_THAT(*answer, SizeIs(1));
  EXPECT_EQ(answer->front().environment.at("IDS"), "2");
  EXPECT_EQ(answer->front().environment.at("EMPTY"), "");
  EXPECT_THAT(answer->front().cdi_devices, ElementsAre("vendor.com/mgpu=c1"));
}

// Kubelet before 1.28 knows only the annotations of the response.
TEST_F(DevicePluginTest, NamesCdiDevicesInAnAnnotationForOldKubelets) {
  start_kubelet();
  DevicePluginHandlers handlers;
  handlers.allocate = [](const Ids& ids) {
    AllocateResponse allocated;
    if (ids.size() == 2) allocated.cdi_devices = {"vendor.com/mgpu=a", "vendor.com/mgpu=b"};
    return allocated;
  };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  const auto answer = kubelet_->allocate(kCore, {{"c1", "c0"}, {"c0"}});
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_THAT(*answer, SizeIs(2));
  EXPECT_THAT(answer->front().annotations,
              ElementsAre(std::pair("cdi.k8s.io/mgpu-device-plugin",
                                    "vendor.com/mgpu=a,vendor.com/mgpu=b")));
  EXPECT_THAT(answer->back().annotations, IsEmpty());
}

TEST_F(DevicePluginTest, PassesTheIdsInTheirOrder) {
  start_kubelet();
  DevicePluginHandlers handlers;
  handlers.allocate = [](const Ids& ids) {
    AllocateResponse allocated;
    for (const std::string& id : ids) allocated.environment["IDS"] += id + " ";
    return allocated;
  };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  for (const Ids& ids : {Ids{"c9", "c3", "c6"}, Ids{"c3", "c6", "c9"}, Ids{"c3", "c3"}}) {
    std::string joined;
    for (const std::string& id : ids) joined += id + " ";
    EXPECT_EQ(kubelet_->allocate(kCore, {ids})->front().environment.at("IDS"), joined);
  }
}

TEST_F(DevicePluginTest, AnswersAllContainerRequestsOrNone) {
  start_kubelet();
  DevicePluginHandlers handlers;
  handlers.allocate = [](const Ids& ids) -> Result<AllocateResponse> {
    if (ids.empty()) return error("no device ids");
    return AllocateResponse{};
  };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_THAT(*kubelet_->allocate(kCore, {{"c0"}, {"c1"}, {"c0"}}), SizeIs(3));
  EXPECT_THAT(kubelet_->allocate(kCore, {{"c0"}, {}}).error().message, HasSubstr("no device ids"));
  EXPECT_THAT(kubelet_->allocate(kCore, {}).error().message,
              HasSubstr("container_requests is empty"));
}

// Kubelet closes the connection when the stream ends, which fails the pod permanently.
TEST_F(DevicePluginTest, EndsTheStreamAfterAnAllocateInProgress) {
  start_kubelet();
  std::atomic<bool> begun = false;
  std::promise<void> held;
  DevicePluginHandlers handlers;
  handlers.allocate = [&](const Ids&) {
    begun = true;
    held.get_future().wait();
    return AllocateResponse{};
  };
  auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  auto call = std::async(std::launch::async, [&] { return kubelet_->allocate(kCore, {{"c0"}}); });
  ASSERT_TRUE(eventually([&] { return begun.load(); }));
  auto end = std::async(std::launch::async, [&] { plugin.reset(); });
  ASSERT_TRUE(eventually([&] { return sockets().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(kubelet_->devices(kCore), kTwo);
  held.set_value();
  end.wait();
  EXPECT_TRUE(call.get());
  EXPECT_TRUE(eventually([&] { return !kubelet_->devices(kCore); }));
}

TEST_F(DevicePluginTest, TruncatesALongError) {
  start_kubelet();
  DevicePluginHandlers handlers;
  handlers.allocate = [](const Ids&) -> Result<AllocateResponse> {
    return error(std::string(1 << 20, 'x'));
  };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_LT(kubelet_->allocate(kCore, {{"c0"}}).error().message.size(), 2'000U);
}

TEST_F(DevicePluginTest, DoesNotImplementPreferredAllocation) {
  start_kubelet();
  const auto plugin = this->plugin();
  ASSERT_TRUE(kubelet_has(kTwo));
  constexpr const char* kUnimplemented = "12 ";
  EXPECT_THAT(kubelet_->preferred_allocation(kCore).error().message,
              ::testing::StartsWith(kUnimplemented));
}

// --- PreStartContainer ---------------------------------------------------------------------------

TEST_F(DevicePluginTest, RequiresPreStartOnlyWithAHandler) {
  start_kubelet();
  auto without = plugin();
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_FALSE(kubelet_->pre_start_required(kCore));
  EXPECT_FALSE(kubelet_->pre_start(kCore, {"c0"}));
  without.reset();
  ASSERT_TRUE(eventually([this] { return !kubelet_->devices(kCore); }));
  const auto with = plugin({.allocate = {},
                            .pre_start = [](const Ids&, const auto&) { return Result<void>(); },
                            .on_registration = {}});
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_TRUE(kubelet_->pre_start_required(kCore));
  EXPECT_TRUE(kubelet_->pre_start(kCore, {"c0"}));
}

TEST_F(DevicePluginTest, ReturnsTheErrorOfPreStart) {
  start_kubelet();
  DevicePluginHandlers handlers;
  handlers.pre_start = [](const Ids& ids, const auto&) -> Result<void> {
    return error("no pod has " + ids.front());
  };
  const auto plugin = this->plugin(std::move(handlers));
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_THAT(kubelet_->pre_start(kCore, {"c1"}).error().message, HasSubstr("no pod has c1"));
}

// A PreStart that waits until it is cancelled.
struct Waiting {
  std::atomic<int> begun = 0;
  std::atomic<int> cancelled = 0;

  DevicePluginHandlers handlers() {
    DevicePluginHandlers made;
    made.pre_start = [this](const Ids&, const std::function<bool()>& is_cancelled) -> Result<void> {
      ++begun;
      if (eventually(is_cancelled)) ++cancelled;
      return error("cancelled");
    };
    return made;
  }
};

TEST_F(DevicePluginTest, CancelsAPreStartThatKubeletNoLongerWaitsFor) {
  start_kubelet();
  Waiting waiting;
  const auto plugin = this->plugin(waiting.handlers());
  ASSERT_TRUE(kubelet_has(kTwo));
  EXPECT_FALSE(kubelet_->pre_start(kCore, {"c0"}, std::chrono::seconds(2)));
  EXPECT_TRUE(eventually([&] { return waiting.cancelled == 1; }));
}

TEST_F(DevicePluginTest, CancelsPreStartsAndWaitsForThemWhenDestroyed) {
  start_kubelet();
  Waiting waiting;
  auto plugin = this->plugin(waiting.handlers());
  ASSERT_TRUE(kubelet_has(kTwo));
  auto call = std::async(std::launch::async, [&] { return kubelet_->pre_start(kCore, {"c0"}); });
  ASSERT_TRUE(eventually([&] { return waiting.begun == 1; }));
  plugin.reset();
  EXPECT_EQ(waiting.cancelled, 1);
  EXPECT_FALSE(call.get());
}

TEST_F(DevicePluginTest, AllocatesDuringTheMaximumOfPreStarts) {
  start_kubelet();
  Waiting waiting;
  auto plugin = this->plugin(waiting.handlers());
  ASSERT_TRUE(kubelet_has(kTwo));
  std::vector<std::future<Result<void>>> calls;
  for (int i = 0; i < kPreStartCallsMax; ++i) {
    calls.push_back(
        std::async(std::launch::async, [&] { return kubelet_->pre_start(kCore, {"c0"}); }));
  }
  ASSERT_TRUE(eventually([&] { return waiting.begun == kPreStartCallsMax; }));
  EXPECT_TRUE(kubelet_->allocate(kCore, {{"c0"}}));
  EXPECT_THAT(kubelet_->pre_start(kCore, {"c1"}).error().message,
              HasSubstr("64 PreStartContainer calls are in progress already"));
  plugin.reset();
  EXPECT_EQ(waiting.cancelled, kPreStartCallsMax);
}

}  // namespace
}  // namespace mgpu::plugin
