// No message ends the plugin, whatever its size or content: it still serves kubelet afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "plugin/allocation/device_set.h"
#include "plugin/kubelet/device_plugin.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/support/resource_names.h"

namespace mgpu::plugin {
namespace {

using test::eventually;
using test::kCore;
using ::testing::HasSubstr;
using Ids = std::vector<std::string>;

constexpr int kOk = 0;
constexpr int kResourceExhausted = 8;
const std::string kMethods[] = {"GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation",
                                "Allocate", "PreStartContainer"};

// The handlers check the ids as the product does.
class HostileKubeletTest : public ::testing::Test {
 public:
  HostileKubeletTest() {
    DevicePluginHandlers handlers;
    handlers.allocate = [](const Ids& ids) -> Result<AllocateResponse> {
      const auto devices = DeviceSet::of(ids);
      if (!devices) return devices.error();
      AllocateResponse allocated;
      allocated.environment["HASH"] = devices->hash();
      return allocated;
    };
    handlers.pre_start = [](const Ids& ids, const auto&) -> Result<void> {
      const auto devices = DeviceSet::of(ids);
      if (!devices) return devices.error();
      return {};
    };
    plugin_ = std::make_unique<DevicePlugin>(
        DevicePluginOptions{.resource = kCore, .folder = folder_.path(), .socket_prefix = "core"},
        Ids{"c0"}, std::move(handlers));
  }
  void SetUp() override { ASSERT_TRUE(registered()); }
  void TearDown() override {
    ASSERT_TRUE(registered());
    EXPECT_TRUE(kubelet_.allocate(kCore, {{"c0"}}));
    EXPECT_TRUE(kubelet_.pre_start(kCore, {"c0"}));
  }

  bool registered() const {
    return eventually([&] { return plugin_->registered() && kubelet_.devices(kCore); });
  }
  int call(const std::string& method, std::string_view bytes) const {
    return test::call_with_bytes(socket(), "v1beta1.DevicePlugin/" + method, bytes);
  }

  test::TemporaryFolder folder_;
  std::string socket() const {
    const std::string registered = kubelet_.registrations().back();
    const auto begin = registered.find(' ') + 1;
    return folder_.path() + "/" + registered.substr(begin, registered.rfind(' ') - begin);
  }

  test::FakeKubelet kubelet_{folder_.path()};
  std::unique_ptr<DevicePlugin> plugin_;
};

TEST_F(HostileKubeletTest, RequestsTooManyDevices) {
  Ids many(100'000);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = "c" + std::to_string(i);
  EXPECT_THAT(kubelet_.allocate(kCore, {many}).error().message, HasSubstr("100000 device ids"));
  EXPECT_THAT(kubelet_.pre_start(kCore, many).error().message, HasSubstr("100000 device ids"));
}

TEST_F(HostileKubeletTest, SendsTooLargeMessages) {
  const Ids huge = {std::string(5 << 20, 'x')};
  EXPECT_THAT(kubelet_.allocate(kCore, {huge}).error().message, HasSubstr("larger than max"));
  EXPECT_EQ(call("PreStartContainer", std::string(8 << 20, '\n')), kResourceExhausted);
}

TEST_F(HostileKubeletTest, SendsInvalidIds) {
  const std::string long_id(3 << 20, 'x');
  const std::string zero("c\0d", 3);
  for (const Ids& ids : {Ids{}, Ids{""}, Ids{long_id}, Ids{"c0", ""}, Ids(5'000, "")}) {
    EXPECT_FALSE(kubelet_.allocate(kCore, {ids}));
    EXPECT_FALSE(kubelet_.pre_start(kCore, ids));
  }
  for (const Ids& ids : {Ids{"../../etc/passwd"}, Ids{zero}, Ids(5'000, "c0"), Ids{"\n", "\x7f"}}) {
    (void)kubelet_.allocate(kCore, {ids});
    (void)kubelet_.pre_start(kCore, ids);
  }
}

TEST_F(HostileKubeletTest, SendsAMillionEmptyContainerRequests) {
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += std::string("\x0a\x00", 2);
  EXPECT_NE(call("Allocate", bytes), kOk);
}

TEST_F(HostileKubeletTest, SendsInvalidUtf8) {
  EXPECT_NE(call("PreStartContainer", "\x0a\x02\xff\xfe"), kOk);
  EXPECT_NE(call("Allocate", "\x0a\x04\x0a\x02\xff\xfe"), kOk);
}

TEST_F(HostileKubeletTest, NestsGroupsDeeply) {
  for (const std::string& method : kMethods) {
    if (method != "ListAndWatch") (void)call(method, std::string(1 << 20, '\x0b'));
  }
}

TEST_F(HostileKubeletTest, SendsRandomMessages) {
  std::minstd_rand random(11);
  for (int i = 0; i < 400; ++i) {
    std::string bytes(random() % 64, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    // ListAndWatch is excluded, since it does not end.
    (void)call(kMethods[2 + random() % 3], bytes);
  }
}

TEST_F(HostileKubeletTest, SendsMessagesWithCorruptBytes) {
  // AllocateRequest{{c0, c1}, {c2}}
  const std::string request =
      "\x0a\x08\x0a\x02"
      "c0\x0a\x02"
      "c1\x0a\x04\x0a\x02"
      "c2";
  ASSERT_EQ(call("Allocate", request), kOk);
  std::minstd_rand random(13);
  for (int i = 0; i < 400; ++i) {
    std::string bytes = request;
    for (int changes = 0; changes < 1 + i % 3; ++changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    (void)call(kMethods[3 + i % 2], bytes);
  }
}

TEST_F(HostileKubeletTest, CallsUnknownMethods) {
  constexpr int kUnimplemented = 12;
  EXPECT_EQ(test::call_with_bytes(socket(), "v1beta1.DevicePlugin/Deallocate", "x"),
            kUnimplemented);
  EXPECT_EQ(test::call_with_bytes(socket(), "v1.PodResourcesLister/List", "x"), kUnimplemented);
}

TEST_F(HostileKubeletTest, SendsInvalidHttp2) {
  std::minstd_rand random(17);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 60; ++i) {
    std::string bytes = i % 2 == 0 ? preface : "";
    for (int k = 0; k < 200; ++k) bytes += static_cast<char>(random());
    test::send_raw_bytes(socket(), bytes);
  }
  test::send_raw_bytes(socket(), "GET / HTTP/1.1\r\nHost: kubelet\r\n\r\n");
  test::send_raw_bytes(socket(), "");
}

TEST_F(HostileKubeletTest, CallsFromManyThreads) {
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 32; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        if (kubelet_.allocate(kCore, {{"c0"}}) && kubelet_.pre_start(kCore, {"c0"})) ++answered;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, 640);
}

}  // namespace
}  // namespace mgpu::plugin
