#include "common/kube/event_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "common/base/asio_executor.h"
#include "common/base/utc_text.h"
#include "common/kube/limits.h"
#include "test/support/node_server.h"

namespace mgpu::kube {
namespace {

using Json = test::NodeServer::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

constexpr std::uint64_t kInFlight = kEventsInFlightMax;

class EventRecorderTest : public ::testing::Test {
 public:
  EventRecorderTest() {
    recorder_.emplace(EventSource{"mgpu-device-plugin", "n1"}, server_.api(),
                      [this] { return "2026-01-02T00:00:" + std::to_string(10 + clock_++) + "Z"; });
  }
  void record(const std::string& message = "card 3 is not healthy") {
    recorder_->on_pod({"ml", "train"}, PodUid("u-1"),
                      {Event::Type::kWarning, "MGPUCardUnhealthy", message});
  }
  void forget_events() {
    for (const Json& event : server_.events("ml")) {
      Request request;
      request.method = Method::kDelete;
      request.target =
          "/api/v1/namespaces/ml/events/" + event["metadata"]["name"].get<std::string>();
      ASSERT_TRUE(server_.api().call(request).ok());
    }
  }

  int clock_ = 0;
  test::NodeServer server_;
  std::optional<EventRecorder> recorder_;
};

TEST_F(EventRecorderTest, WritesAnEventOnAPod) {
  record();
  server_.run();
  const auto events = server_.events("ml");
  ASSERT_THAT(events, SizeIs(1));
  const Json& event = events[0];
  EXPECT_THAT(event["metadata"]["name"].get<std::string>(), MatchesRegex("train\\.[0-9a-f]+"));
  EXPECT_EQ(event["involvedObject"], Json({{"apiVersion", "v1"},
                                           {"kind", "Pod"},
                                           {"namespace", "ml"},
                                           {"name", "train"},
                                           {"uid", "u-1"}}));
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "MGPUCardUnhealthy");
  EXPECT_EQ(event["message"], "card 3 is not healthy");
  EXPECT_EQ(event["source"], Json({{"component", "mgpu-device-plugin"}, {"host", "n1"}}));
  EXPECT_EQ(event["count"], 1);
  EXPECT_EQ(event["firstTimestamp"], event["lastTimestamp"]);
  EXPECT_EQ(recorder_->dropped(), 0u);
}

TEST_F(EventRecorderTest, OmitsAnUnknownUid) {
  recorder_->on_pod({"ml", "train"}, PodUid(), {Event::Type::kNormal, "R", "m"});
  server_.run();
  EXPECT_FALSE(server_.events("ml").at(0)["involvedObject"].contains("uid"));
  EXPECT_EQ(server_.events("ml").at(0)["type"], "Normal");
}

TEST_F(EventRecorderTest, WritesNodeEventsInTheDefaultNamespace) {
  recorder_->on_node({Event::Type::kNormal, "MGPUCardHealthy", "card 3 is healthy"});
  server_.run();
  const auto events = server_.events("default");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0]["involvedObject"],
            Json({{"apiVersion", "v1"}, {"kind", "Node"}, {"name", "n1"}, {"uid", "n1"}}));
  EXPECT_THAT(events[0]["metadata"]["name"].get<std::string>(), MatchesRegex("n1\\.[0-9a-f]+"));
}

TEST_F(EventRecorderTest, CountsEqualEventsOnOneObject) {
  for (int i = 0; i < 3; ++i) {
    record();
    server_.run();
  }
  const auto events = server_.events("ml");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0]["count"], 3);
  EXPECT_EQ(events[0]["firstTimestamp"], "2026-01-02T00:00:10Z");
  EXPECT_NE(events[0]["lastTimestamp"], events[0]["firstTimestamp"]);
}

TEST_F(EventRecorderTest, CountsEventsWhileARequestIsInFlight) {
  for (int i = 0; i < 100; ++i) record();
  server_.run();
  const auto events = server_.events("ml");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0]["count"], 100);
  EXPECT_THAT(server_.writes, SizeIs(2));
  EXPECT_EQ(recorder_->dropped(), 0u);
}

TEST_F(EventRecorderTest, DistinguishesEventsByEachField) {
  const PodRef pod{"ml", "train"};
  const Event event{Event::Type::kWarning, "R", "m"};
  recorder_->on_pod(pod, PodUid("u-1"), event);
  recorder_->on_pod(pod, PodUid("u-2"), event);
  recorder_->on_pod({"ml", "other"}, PodUid("u-1"), event);
  recorder_->on_pod(pod, PodUid("u-1"), {Event::Type::kWarning, "S", "m"});
  recorder_->on_pod(pod, PodUid("u-1"), {Event::Type::kWarning, "R", "n"});
  server_.run();
  EXPECT_THAT(server_.events("ml"), SizeIs(5));
}

TEST_F(EventRecorderTest, CreatesANewObjectAfterTheServerDeletedTheOld) {
  record();
  server_.run();
  forget_events();
  record();
  server_.run();
  const auto events = server_.events("ml");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0]["count"], 1);
  EXPECT_EQ(recorder_->dropped(), 0u);
  record();
  server_.run();
  EXPECT_EQ(server_.events("ml").at(0)["count"], 2);
}

TEST_F(EventRecorderTest, DropsAndCountsEventsThatTheServerRejects) {
  server_.fault = [](const Request&) { return test::Fault{.status = 403}; };
  record();
  record();
  server_.run();
  EXPECT_EQ(recorder_->dropped(), 2u);
  EXPECT_THAT(server_.writes, SizeIs(1));
  server_.fault = nullptr;
  record();
  server_.run();
  EXPECT_EQ(server_.events("ml").at(0)["count"], 3);
  EXPECT_EQ(recorder_->dropped(), 2u);
}

TEST_F(EventRecorderTest, SendsAgainWhatFailedForAReasonThatMayGoAway) {
  const struct {
    test::Fault fault;
    bool again;
  } cases[] = {{{.status = 403}, true},  {{.status = 429}, true},  {{.status = 503}, true},
               {{.status = 404}, false}, {{.status = 422}, false}, {{.status = 400}, false}};
  for (const auto& one : cases) {
    const std::string message = std::to_string(one.fault.status);
    server_.fault = [&](const Request&) { return one.fault; };
    record(message);
    server_.run();
    server_.fault = nullptr;
    server_.writes.clear();
    server_.executor().advance(kEventRetryMin);
    EXPECT_THAT(server_.writes, SizeIs(one.again ? 1 : 0)) << message;
  }
  for (const Json& event : server_.events("ml")) EXPECT_EQ(event["count"], 1);
  EXPECT_THAT(server_.events("ml"), SizeIs(3));
  EXPECT_EQ(recorder_->dropped(), 6u);
}

TEST_F(EventRecorderTest, SendsAgainLessAndLessOftenAndThenNoMore) {
  server_.fault = [](const Request&) { return test::Fault{.status = 403}; };
  record();
  server_.run();
  server_.executor().advance(4 * kEventRetryMin);
  EXPECT_THAT(server_.writes, SizeIs(3)) << "at once, after 10 s, and after 30 s";
  server_.executor().advance(std::chrono::hours(3));
  EXPECT_THAT(server_.writes, SizeIs(kEventTriesMax));
  EXPECT_EQ(recorder_->dropped(), 1u);
  EXPECT_EQ(server_.executor().pending(), 0u) << "nothing waits";
}

TEST_F(EventRecorderTest, SendsTheFullCountAfterAFailedUpdate) {
  record();
  server_.run();
  server_.fault = [](const Request&) { return test::Fault{.status = 503}; };
  record();
  server_.run();
  EXPECT_EQ(recorder_->dropped(), 1u);
  server_.fault = nullptr;
  record();
  server_.run();
  EXPECT_EQ(server_.events("ml").at(0)["count"], 3);
}

TEST_F(EventRecorderTest, SendsEventsOverTheLimitInFlightWhenRequestsEnd) {
  for (std::uint64_t n = 0; n < kInFlight + 5; ++n) record(std::to_string(n));
  EXPECT_EQ(recorder_->dropped(), 5u) << "they were not sent at once";
  server_.run();
  EXPECT_THAT(server_.events("ml"), SizeIs(kInFlight + 5));
  EXPECT_EQ(recorder_->dropped(), 5u);
}

TEST_F(EventRecorderTest, BoundsTheEventsThatWait) {
  server_.fault = [](const Request&) { return test::Fault{.status = 503}; };
  for (std::size_t n = 0; n < kEventsRememberedMax + 9; ++n) {
    record(std::to_string(n));
    server_.run();
  }
  server_.fault = nullptr;
  server_.executor().advance(2 * kEventRetryMin);
  EXPECT_THAT(server_.events("ml"), SizeIs(kEventsRememberedMax));
}

TEST_F(EventRecorderTest, RemembersABoundedNumberOfEvents) {
  record("first");
  server_.run();
  for (std::size_t i = 0; i < kEventsRememberedMax; ++i) {
    record(std::to_string(i));
    server_.run();
  }
  server_.writes.clear();
  record("first");  // its count was dropped
  record(std::to_string(kEventsRememberedMax - 1));
  server_.run();
  EXPECT_THAT(server_.writes, ElementsAre(HasSubstr("POST"), HasSubstr("PATCH")));
}

TEST_F(EventRecorderTest, TruncatesLongFields) {
  const std::string long_name = std::string(200, 'a') + "." + std::string(52, 'b');
  recorder_->on_pod({"ml", long_name}, PodUid("u"),
                    {Event::Type::kWarning, std::string(1'000, 'R'), std::string(100'000, 'm')});
  server_.run();
  const auto events = server_.events("ml");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_LE(events[0]["metadata"]["name"].get<std::string>().size(), 253u);
  EXPECT_EQ(events[0]["message"].get<std::string>().size(), kEventMessageMax);
  EXPECT_EQ(events[0]["reason"].get<std::string>().size(), 128u);
}

TEST_F(EventRecorderTest, EscapesInvalidText) {
  record("bad \xff \" \\ \n byte");
  server_.run();
  ASSERT_THAT(server_.events("ml"), SizeIs(1));
  EXPECT_THAT(server_.events("ml")[0]["message"].get<std::string>(), HasSubstr("\" \\ \n byte"));
}

TEST_F(EventRecorderTest, MayBeDestroyedWithRequestsInFlight) {
  record();
  recorder_.reset();
  server_.run();
  EXPECT_THAT(server_.events("ml"), SizeIs(1));
}

TEST(EventRecorder, AcceptsEventsFromAnyThread) {
  AsioExecutor executor;
  MemoryApiServer api(executor, {});
  std::uint64_t dropped = 0;
  {
    EventRecorder recorder({"mgpu-device-plugin", "n1"}, api, utc_now);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 100; ++n) {
          recorder.on_pod({"ml", "p"}, PodUid("u"),
                          {Event::Type::kWarning, "R", std::to_string(n % 8)});
        }
      });
    }
    threads.clear();
    executor.stop();
    dropped = recorder.dropped();
  }
  EXPECT_EQ(dropped, 0u);
}

}  // namespace
}  // namespace mgpu::kube
