#include "plugin/kubelet/pod_resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>

#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/kubelet/fake_services.h"
#include "test/plugin/support/resource_names.h"

namespace mgpu::plugin {
namespace {

using test::FakePodResources;
using test::kCore;
using test::kMemory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using List = std::vector<ContainerDevices>;

constexpr std::chrono::milliseconds kLong = test::kKubeletWait;
const std::string kRateLimit =
    "8 rejected by rate limit";  // pkg/kubelet/apis/grpc/ratelimit.go, ErrorLimitExceeded

// One "namespace/pod container c1,c2" for each entry.
std::vector<std::string> lines(const List& list) {
  std::vector<std::string> lines;
  for (const ContainerDevices& entry : list) {
    std::string line = to_string(entry.pod) + " " + entry.container + " ";
    for (const std::string& id : entry.devices.ids()) line += id + ",";
    line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

class PodResourcesTest : public ::testing::Test {
 public:
  test::TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/kubelet.sock";
  PodResources client_{socket_};
};

TEST_F(PodResourcesTest, JoinsTheEntriesOfAContainer) {
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {"c9"}},
                                          {"a/one", "main", kMemory, {"0"}},
                                          {"a/one", "main", kCore, {"c3"}},
                                          {"a/one", "main", kCore, {"c6"}},
                                          {"a/one", "side", kCore, {"c1", "c0"}},
                                          {"b/one", "main", kCore, {"c7"}}});
  const auto list = client_.list(kCore, kLong);
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_THAT(lines(*list),
              ElementsAre("a/one main c3,c6,c9", "a/one side c0,c1", "b/one main c7"));
}

TEST_F(PodResourcesTest, CountsADeviceOfSeveralNumaNodesOnce) {
  const FakePodResources server(
      socket_, {{"a/one", "main", kCore, {"c1"}}, {"a/one", "main", kCore, {"c1"}}});
  EXPECT_THAT(lines(*client_.list(kCore, kLong)), ElementsAre("a/one main c1"));
}

TEST_F(PodResourcesTest, SkipsContainersWithoutTheResource) {
  const FakePodResources server(socket_, {{"a/one", "main", kMemory, {"0"}},
                                          {"a/two", "main", "example.com/nic", {"n"}},
                                          {"a/two", "none", kCore, {}}});
  EXPECT_THAT(*client_.list(kCore, kLong), IsEmpty());
}

TEST_F(PodResourcesTest, ReturnsNoContainersForAnEmptyNode) {
  const FakePodResources server(socket_, {});
  EXPECT_THAT(*client_.list(kCore, kLong), IsEmpty());
}

TEST_F(PodResourcesTest, ReadsResponsesAboveFourMegabytes) {
  std::vector<test::DeviceEntry> entries;
  for (int i = 0; i < 200'000; ++i) {
    entries.push_back({"a/big", "main", kMemory, {std::to_string(100'000 + i)}});
  }
  entries.push_back({"a/big", "main", kCore, {"c0"}});
  const FakePodResources server(socket_, std::move(entries));
  const auto list = client_.list(kCore, kLong);
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_THAT(lines(*list), ElementsAre("a/big main c0"));
}

TEST_F(PodResourcesTest, NamesTheContainerWithInvalidDevices) {
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {std::string(64, 'x')}}});
  EXPECT_THAT(client_.list(kCore, kLong).error().message,
              AllOf(HasSubstr("container \"main\" of pod \"a/one\""),
                    HasSubstr("must have 1 to 63 characters")));
}

TEST_F(PodResourcesTest, ReportsAMissingKubelet) {
  const auto list = client_.list(kCore, kLong);
  ASSERT_FALSE(list);
  EXPECT_THAT(list.error().message,
              AllOf(HasSubstr("PodResources at \"" + socket_ + "\""), HasSubstr("Unavailable")));
}

TEST_F(PodResourcesTest, RetriesAfterTheRateLimit) {
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {"c1"}}},
                                [](int call) { return call < 4 ? kRateLimit : ""; });
  EXPECT_THAT(lines(*client_.list(kCore, kLong)), ElementsAre("a/one main c1"));
  EXPECT_EQ(server.calls(), 4);
}

TEST_F(PodResourcesTest, StopsRetryingAtTheTimeout) {
  const FakePodResources server(socket_, {}, [](int) { return kRateLimit; });
  const auto list = client_.list(kCore, std::chrono::seconds(2));
  ASSERT_FALSE(list);
  EXPECT_GE(server.calls(), 1);
}

TEST_F(PodResourcesTest, DoesNotRetryOtherFailures) {
  for (const std::string failure : {"8 message larger than max", "13 broken", "12 disabled"}) {
    const FakePodResources server(socket_, {}, [=](int) { return failure; });
    EXPECT_THAT(PodResources(socket_).list(kCore, kLong).error().message,
                HasSubstr(failure.substr(failure.find(' ') + 1)));
    EXPECT_EQ(server.calls(), 1);
  }
}

TEST_F(PodResourcesTest, LimitsASlowCallByTheTimeout) {
  std::atomic<bool> over = false;
  const FakePodResources server(socket_, {}, [&](int) {
    test::eventually([&] { return over.load(); });
    return "";
  });
  EXPECT_THAT(client_.list(kCore, std::chrono::milliseconds(50)).error().message,
              HasSubstr("DeadlineExceeded"));
  over = true;
}

TEST_F(PodResourcesTest, ReconnectsAfterKubeletRestarts) {
  for (const std::string id : {"c1", "c2", "c3"}) {
    const FakePodResources server(socket_, {{"a/one", "main", kCore, {id}}});
    const auto list = client_.list(kCore, kLong);
    ASSERT_TRUE(list) << list.error().message;
    EXPECT_THAT(lines(*list), ElementsAre("a/one main " + id));
  }
}

TEST_F(PodResourcesTest, ConnectsAtOnceWhenKubeletStarts) {
  for (int i = 0; i < 5; ++i) ASSERT_FALSE(client_.list(kCore, kLong));
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {"c1"}}});
  EXPECT_TRUE(client_.list(kCore, kLong));
}

// The first call is blocked until `first_` is released. The others arrive while it is in progress.
class SharingTest : public PodResourcesTest {
 public:
  std::future<Result<List>> ask(const std::string& resource = kCore,
                                std::chrono::milliseconds timeout = kLong) {
    return std::async(std::launch::async, [=, this] { return client_.list(resource, timeout); });
  }
  FakePodResources::Verdict hold_first() {
    return [this](int call) {
      if (call == 1) first_.wait();
      return "";
    };
  }

  std::latch first_{1};
};

TEST_F(SharingTest, CallersDuringACallShareTheNext) {
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {"c1"}}}, hold_first());
  auto leader = ask();
  ASSERT_TRUE(test::eventually([&] { return server.calls() == 1; }));
  std::vector<std::future<Result<List>>> others;
  for (int i = 0; i < 20; ++i) others.push_back(ask());
  // This caller waits for the shared call, so that it reaches its timeout.
  EXPECT_THAT(client_.list(kCore, std::chrono::milliseconds(50)).error().message,
              HasSubstr("did not answer within 50 ms"));
  first_.count_down();
  EXPECT_TRUE(leader.get());
  for (auto& other : others) EXPECT_THAT(lines(*other.get()), ElementsAre("a/one main c1"));
  EXPECT_LE(server.calls(), 20);
}

// Others on the node use kubelet's limit of calls, too.
TEST_F(PodResourcesTest, CallsKubeletAtMostOnceAPeriod) {
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {"c1"}}});
  constexpr int kCalls = 8;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) ASSERT_TRUE(client_.list(kCore, kLong));
  EXPECT_EQ(server.calls(), kCalls);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, (kCalls - 1) * kPodResourcesPeriod);
}

TEST_F(SharingTest, CallsForDifferentResourcesAreIndependent) {
  const FakePodResources server(
      socket_, {{"a/one", "main", kCore, {"c1"}}, {"a/one", "main", kMemory, {"m"}}}, hold_first());
  auto held = ask();
  ASSERT_TRUE(test::eventually([&] { return server.calls() == 1; }));
  EXPECT_THAT(lines(*client_.list(kMemory, kLong)), ElementsAre("a/one main m"));
  first_.count_down();
  EXPECT_THAT(lines(*held.get()), ElementsAre("a/one main c1"));
}

TEST_F(SharingTest, AllOfManyCallersGetAResponse) {
  const FakePodResources server(socket_, {{"a/one", "main", kCore, {"c1"}}});
  std::vector<std::future<Result<List>>> callers;
  for (int i = 0; i < 16; ++i) {
    callers.push_back(std::async(std::launch::async, [&]() -> Result<List> {
      for (int k = 0; k < 20; ++k) {
        if (auto list = client_.list(kCore, kLong); !list || list->size() != 1) return list;
      }
      return List();
    }));
  }
  for (auto& caller : callers) EXPECT_TRUE(caller.get());
  EXPECT_LE(server.calls(), 320);
}

}  // namespace
}  // namespace mgpu::plugin
