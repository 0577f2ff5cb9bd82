#include "common/kube/watch/watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using EventKind = WatchEvent::Kind;
using ActionKind = WatchAction::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string object(std::string_view name, std::string_view version) {
  return R"({"metadata":{"name":")" + std::string(name) + R"(","resourceVersion":")" +
         std::string(version) + R"("}})";
}

std::string line(std::string_view type, const std::string& object) {
  return R"({"type":")" + std::string(type) + R"(","object":)" + object + "}";
}

Response page(std::string_view version, std::string_view token, std::string_view items = "") {
  Response response;
  response.status = 200;
  response.body = R"({"metadata":{"resourceVersion":")" + std::string(version) +
                  R"(","continue":")" + std::string(token) + R"("},"items":[)" +
                  std::string(items) + "]}";
  return response;
}

Response status(int code, std::string_view reason = "", std::string_view message = "") {
  Response response;
  response.status = code;
  response.body = R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"reason":")" +
                  std::string(reason) + R"(","message":")" + std::string(message) + R"("})";
  return response;
}

Response connection_reset() {
  Response response;
  response.failure = TransportFailure{"connection reset", true};
  return response;
}

std::string status_line(int code, std::string_view reason) {
  return line("ERROR", status(code, reason).body);
}

std::vector<EventKind> kinds(const WatchStep& step) {
  std::vector<EventKind> kinds;
  for (const WatchEvent& event : step.events) kinds.push_back(event.kind);
  return kinds;
}

// A watcher with its own clock. `random` is 1 unless a test sets it, so that waits have their full
// length.
class WatcherTest : public ::testing::Test {
 public:
  WatchStep start() { return watcher_.start(); }
  WatchStep listed(const Response& response) { return watcher_.on_list(response, now_, random_); }
  WatchStep said(std::string_view text) { return watcher_.on_line(text, now_, random_); }
  WatchStep ended(const Response& response) { return watcher_.on_end(response, now_, random_); }
  WatchStep silent() { return watcher_.on_silence(now_, random_); }
  WatchStep waited() { return watcher_.on_waited(now_, random_); }

  void watch_from(std::string_view version) {
    start();
    ASSERT_EQ(listed(page(version, "")).action.kind, ActionKind::kWatch);
  }

  Watcher watcher_{Resource{"/api/v1/pods", ""}};
  Instant now_{};
  double random_ = 0.999'999;
};

void expect_list(const WatchStep& step, std::string_view token) {
  EXPECT_EQ(step.action.kind, ActionKind::kList);
  const std::string wanted =
      "/api/v1/pods?limit=500" + (token.empty() ? "" : "&continue=" + std::string(token));
  EXPECT_EQ(step.action.request.target, wanted);
}

void expect_watch(const WatchStep& step, std::string_view version) {
  EXPECT_EQ(step.action.kind, ActionKind::kWatch);
  EXPECT_THAT(step.action.request.target,
              HasSubstr("resourceVersion=" + std::string(version) + "&"));
  EXPECT_THAT(step.action.request.target, HasSubstr("allowWatchBookmarks=true"));
}

void expect_wait(const WatchStep& step) {
  EXPECT_EQ(step.action.kind, ActionKind::kWait);
  EXPECT_GT(step.action.delay, Duration(0));
  EXPECT_FALSE(step.problem.empty());
}

TEST_F(WatcherTest, ListsPagesThenWatchesFromTheListsVersion) {
  expect_list(start(), "");
  const WatchStep first = listed(page("5", "t1", object("a", "1")));
  EXPECT_EQ(kinds(first), (std::vector{EventKind::kRelistBegin, EventKind::kRelistObject}));
  expect_list(first, "t1");
  EXPECT_FALSE(watcher_.synced());

  const WatchStep last = listed(page("5", "", object("b", "2") + "," + object("c", "3")));
  EXPECT_EQ(kinds(last), (std::vector{EventKind::kRelistObject, EventKind::kRelistObject,
                                      EventKind::kRelistEnd}));
  EXPECT_EQ(last.events[1].object, object("c", "3"));
  expect_watch(last, "5");
  EXPECT_TRUE(watcher_.synced());
}

TEST_F(WatcherTest, AppliesLinesAndResumesFromTheirVersion) {
  watch_from("5");
  const WatchStep added = said(line("ADDED", object("a", "6")));
  EXPECT_EQ(kinds(added), std::vector{EventKind::kApply});
  EXPECT_EQ(added.events[0].object, object("a", "6"));
  EXPECT_EQ(added.action.kind, ActionKind::kNone);
  EXPECT_EQ(kinds(said(line("MODIFIED", object("a", "7")))), std::vector{EventKind::kApply});
  EXPECT_EQ(kinds(said(line("DELETED", object("a", "8")))), std::vector{EventKind::kDelete});
  expect_watch(ended(page("", "")), "8");
}

// The server may choose another encoding for each answer.
TEST_F(WatcherTest, ReadsEachAnswerInItsOwnEncoding) {
  start();
  Response in_protobuf;
  in_protobuf.status = 200;
  in_protobuf.encoding = Encoding::kProtobuf;
  const std::string list(
      "k8s\0\x0a\x0b\x0a\x00\x12\x07PodList\x12\x0a\x0a\x03\x12\x01"
      "5\x12\x03pod",
      29);
  in_protobuf.body = list;
  const WatchStep page = listed(in_protobuf);
  ASSERT_EQ(kinds(page),
            (std::vector{EventKind::kRelistBegin, EventKind::kRelistObject, EventKind::kRelistEnd}))
      << page.problem;
  EXPECT_EQ(page.events[1].object, "pod");
  EXPECT_EQ(page.events[1].encoding, Encoding::kProtobuf);
  const WatchStep json = said(line("ADDED", object("a", "6")));
  EXPECT_EQ(json.events.at(0).encoding, Encoding::kJson);

  watcher_.on_open(Encoding::kProtobuf);
  // What a tenant writes into an annotation is no line, and no name.
  const WatchStep step = said(line("ADDED", object("a", "7")));
  EXPECT_THAT(step.events, IsEmpty());
  EXPECT_THAT(step.problem, HasSubstr("the text is not an event of a watch"));
}

TEST_F(WatcherTest, AdvancesWithBookmarksWithoutAnyEvent) {
  watch_from("5");
  const WatchStep bookmark = said(line("BOOKMARK", object("", "40")));
  EXPECT_THAT(bookmark.events, IsEmpty());
  EXPECT_EQ(bookmark.action.kind, ActionKind::kNone);
  expect_watch(ended(page("", "")), "40");
}

TEST_F(WatcherTest, KeepsItsVersionWhenAnObjectHasNone) {
  watch_from("5");
  said(line("ADDED", R"({"metadata":{"name":"a"}})"));
  now_ += seconds(2);
  expect_watch(ended(page("", "")), "5");
}

TEST_F(WatcherTest, RequestsAWatchOfFiveToTenMinutes) {
  for (const auto& [random, wanted] : {std::pair{0.0, "=300"}, {0.5, "=450"}, {0.9999, "=599"}}) {
    Watcher watcher(all_nodes());
    watcher.start();
    const WatchStep step = watcher.on_list(page("5", ""), now_, random);
    EXPECT_THAT(step.action.request.target, HasSubstr(std::string("timeoutSeconds") + wanted));
  }
}

TEST_F(WatcherTest, StartsOverWhenATokenIsTooOld) {
  start();
  listed(page("5", "t1", object("a", "1")));
  const WatchStep gone = listed(status(410, "Expired", "token too old"));
  expect_list(gone, "");
  EXPECT_THAT(gone.problem, HasSubstr("token too old"));
  const WatchStep again = listed(page("9", "", object("b", "1")));
  EXPECT_EQ(kinds(again), (std::vector{EventKind::kRelistBegin, EventKind::kRelistObject,
                                       EventKind::kRelistEnd}));
  expect_watch(again, "9");
}

TEST_F(WatcherTest, ListsAgainWhenItsVersionIsTooOld) {
  struct Case {
    std::string name;
    std::function<WatchStep(WatcherTest&)> happens;
  };
  const Case cases[] = {
      {"HTTP 410", [](WatcherTest& t) { return t.ended(status(410, "Expired")); }},
      {"ERROR 410", [](WatcherTest& t) { return t.said(status_line(410, "Expired")); }},
      {"ERROR Gone", [](WatcherTest& t) { return t.said(status_line(410, "Gone")); }},
      {"malformed", [](WatcherTest& t) { return t.said("{garbage"); }},
      {"unknown type", [](WatcherTest& t) { return t.said(line("EXPLODED", "{}")); }},
  };
  for (const Case& a_case : cases) {
    SCOPED_TRACE(a_case.name);
    watcher_ = Watcher(Resource{"/api/v1/pods", ""});
    watch_from("5");
    const WatchStep step = a_case.happens(*this);
    expect_list(step, "");
    EXPECT_THAT(step.events, IsEmpty());
    EXPECT_FALSE(step.problem.empty());
    EXPECT_TRUE(watcher_.synced());
    // The next one waits.
    listed(page("6", ""));
    expect_wait(a_case.happens(*this));
    expect_list(waited(), "");
  }
}

// The form in which the transport delivers a line that is too long.
std::string cut_line(std::string_view name, std::string_view version) {
  return R"({"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":")" + std::string(name) +
         R"(","namespace":"n","resourceVersion":")" + std::string(version) + R"(","labels":{"a)";
}

TEST_F(WatcherTest, SkipsAnObjectThatCannotBeReadAndContinues) {
  watch_from("5");
  const WatchStep step = said(cut_line("big", "6"));
  EXPECT_EQ(step.action.kind, ActionKind::kNone);
  EXPECT_THAT(step.events, IsEmpty());
  EXPECT_THAT(step.problem, IsEmpty());
  EXPECT_THAT(step.unreadable, HasSubstr("n/big in a watch of /api/v1/pods: not JSON"));
  EXPECT_THAT(kinds(said(line("ADDED", object("b", "7")))), ElementsAre(EventKind::kApply));
}

TEST_F(WatcherTest, DoesNotRequestASkippedObjectAgain) {
  watch_from("5");
  said(cut_line("big", "6"));
  expect_watch(ended(status(200)), "6");
}

TEST_F(WatcherTest, ListsAgainAfterManyObjectsInARowThatCannotBeRead) {
  watch_from("5");
  for (std::uint32_t i = 1; i < kUnreadableLinesMax; ++i) {
    ASSERT_EQ(said(cut_line("big", "6")).action.kind, ActionKind::kNone) << i;
  }
  expect_list(said(cut_line("big", "6")), "");
}

// The second is the length of an event that is too long, see EventBuffer.
TEST_F(WatcherTest, ListsAgainAfterAnEventInProtobufThatCannotBeRead) {
  for (const std::string& event : {std::string("\n\x05"
                                               "ADDED\x12"),
                                   std::string("\xff\xff\xff\xff")}) {
    watch_from("5");
    const WatchStep step = said(event);
    EXPECT_THAT(step.problem, HasSubstr("watch /api/v1/pods: "));
    expect_list(step, "");
    watcher_ = Watcher(all_pods());
  }
}

TEST_F(WatcherTest, ResetsTheCountOfUnreadableObjectsAfterAReadableOne) {
  watch_from("5");
  for (std::uint32_t i = 1; i < 2 * kUnreadableLinesMax; ++i) {
    ASSERT_EQ(said(cut_line("big", "6")).action.kind, ActionKind::kNone) << i;
    said(line("BOOKMARK", object("", "7")));
  }
}

Response too_large() {
  Response response;
  response.failure = TransportFailure{"the answer has more than 7 bytes", true, true};
  return response;
}

Response long_page(const std::string& version, const std::string& continue_token) {
  Response response = page(version, continue_token);
  response.body.append(kShortPageBytes, ' ');
  return response;
}

TEST_F(WatcherTest, RequestsFewerObjectsWhereAPageIsTooLong) {
  start();
  const WatchStep fewer = listed(too_large());
  EXPECT_EQ(fewer.action.request.target, "/api/v1/pods?limit=31");
  EXPECT_THAT(fewer.problem, HasSubstr("it is requested again with 31 objects"));
  const WatchStep next = listed(long_page("5", "token"));
  EXPECT_EQ(next.action.request.target, "/api/v1/pods?limit=31&continue=token");
  EXPECT_EQ(listed(too_large()).action.request.target, "/api/v1/pods?limit=1&continue=token");
  expect_watch(listed(page("5", "")), "5");
}

// One long object does not make the rest of a large collection slow.
TEST_F(WatcherTest, RequestsMoreObjectsAgainAfterShortPages) {
  start();
  listed(too_large());
  for (const int limit : {62, 124, 248, 496, 500, 500}) {
    ASSERT_EQ(listed(page("5", "token")).action.request.target,
              "/api/v1/pods?limit=" + std::to_string(limit) + "&continue=token");
  }
}

TEST_F(WatcherTest, RequestsFullPagesInTheNextRelist) {
  start();
  listed(too_large());
  listed(long_page("5", ""));
  expect_list(said(status_line(410, "Expired")), "");
}

TEST_F(WatcherTest, BacksOffWhereOneObjectIsTooLong) {
  start();
  for (const int limit : {31, 1}) {
    ASSERT_EQ(listed(too_large()).action.request.target,
              "/api/v1/pods?limit=" + std::to_string(limit));
  }
  expect_wait(listed(too_large()));
}

TEST_F(WatcherTest, BacksOffAndContinuesWhenAListFails) {
  const Response failures[] = {
      status(429),
      status(500),
      status(503),
      status(403, "Forbidden"),
      connection_reset(),
      status(410),
      page("", ""),
      Response{.status = 200, .body = "<html>", .retry_after = {}, .failure = {}}};
  for (const Response& failure : failures) {
    SCOPED_TRACE(failure.status);
    watcher_ = Watcher(Resource{"/api/v1/pods", ""});
    start();
    expect_wait(listed(failure));
    expect_list(waited(), "");
  }
}

TEST_F(WatcherTest, ContinuesWithTheSamePageAfterAFailure) {
  start();
  listed(page("5", "t1", object("a", "1")));
  expect_wait(listed(status(503)));
  expect_list(waited(), "t1");
  EXPECT_EQ(kinds(listed(page("5", ""))), std::vector{EventKind::kRelistEnd});
}

TEST_F(WatcherTest, BacksOffAndResumesWhenAWatchFails) {
  struct Case {
    std::string name;
    std::function<WatchStep(WatcherTest&)> happens;
  };
  const Case cases[] = {
      {"429", [](WatcherTest& t) { return t.ended(status(429)); }},
      {"503", [](WatcherTest& t) { return t.ended(status(503)); }},
      {"403", [](WatcherTest& t) { return t.ended(status(403)); }},
      {"lost", [](WatcherTest& t) { return t.ended(connection_reset()); }},
      {"ERROR 500", [](WatcherTest& t) { return t.said(status_line(500, "InternalError")); }},
      {"silence", [](WatcherTest& t) { return t.silent(); }},
  };
  for (const Case& a_case : cases) {
    SCOPED_TRACE(a_case.name);
    watcher_ = Watcher(Resource{"/api/v1/pods", ""});
    watch_from("5");
    said(line("ADDED", object("a", "6")));
    expect_wait(a_case.happens(*this));
    expect_watch(waited(), "6");
  }
}

TEST_F(WatcherTest, NamesTheCollectionAndTheServersMessageInAProblem) {
  start();
  EXPECT_EQ(listed(status(403, "Forbidden", "no rights")).problem,
            "list /api/v1/pods: HTTP 403 Forbidden: no rights");
  waited();
  EXPECT_EQ(listed(connection_reset()).problem, "list /api/v1/pods: connection reset");
  waited();
  listed(page("5", ""));
  EXPECT_EQ(ended(status(503, "Busy", "later")).problem,
            "watch /api/v1/pods: HTTP 503 Busy: later");
}

TEST_F(WatcherTest, DoublesItsWaitsUpToTheLimit) {
  start();
  std::vector<Duration> waits;
  for (int i = 0; i < 9; ++i) {
    waits.push_back(listed(connection_reset()).action.delay);
    now_ += waits.back();
    waited();
  }
  for (std::size_t i = 0; i < waits.size(); ++i) {
    const Duration full = std::min(Duration(kBackoffFirst) * (1 << i), Duration(kBackoffMax));
    EXPECT_GE(waits[i], full - milliseconds(1)) << i;
    EXPECT_LE(waits[i], full) << i;
  }
}

// As while the API server restarts.
TEST_F(WatcherTest, WaitsLessWhereNoConnectionIsMade) {
  Response refused;
  refused.failure = TransportFailure{"connection refused", false};
  watch_from("5");
  now_ += ended(connection_reset()).action.delay;
  waited();
  for (int i = 0; i < 9; ++i) {
    const Duration wait = ended(refused).action.delay;
    EXPECT_LE(wait, kBackoffUnsentMax) << i;
    now_ += wait;
    waited();
  }
  EXPECT_GE(ended(refused).action.delay, kBackoffUnsentMax - milliseconds(1));
}

TEST_F(WatcherTest, JittersItsWaitsDownToHalf) {
  random_ = 0;
  start();
  EXPECT_EQ(listed(connection_reset()).action.delay, Duration(kBackoffFirst) / 2);
}

TEST_F(WatcherTest, ResetsItsBackoffAfterALongTimeWithoutFailure) {
  watch_from("5");
  for (int i = 0; i < 6; ++i) {
    now_ += ended(connection_reset()).action.delay;
    waited();
  }
  now_ += kBackoffResetAfter;
  EXPECT_LE(ended(connection_reset()).action.delay, Duration(kBackoffFirst));
}

TEST_F(WatcherTest, WaitsForRetryAfterUpToALimit) {
  for (const auto& [retry_after, wanted] :
       {std::pair{seconds(7), seconds(7)}, {seconds(100'000), kRetryAfterMax}}) {
    for (const int code : {429, 503}) {
      watcher_ = Watcher(Resource{"/api/v1/pods", ""});
      start();
      Response busy = status(code);
      busy.retry_after = retry_after;
      EXPECT_EQ(listed(busy).action.delay, wanted);
      waited();
      listed(page("5", ""));
      EXPECT_EQ(ended(busy).action.delay, wanted);
    }
  }
}

TEST_F(WatcherTest, BacksOffFromAWatchThatEndsAtOnce) {
  watch_from("5");
  Duration waited_for{0};
  for (int i = 0; i < 20; ++i) {
    const WatchStep step = ended(page("", ""));
    expect_wait(step);
    waited_for += step.action.delay;
    now_ += step.action.delay;
    expect_watch(waited(), "5");
  }
  EXPECT_GT(waited_for, seconds(300));
}

TEST_F(WatcherTest, ReopensAWatchAtOnceWhenItLastedOrAdvanced) {
  watch_from("5");
  now_ += kWatchShort;
  expect_watch(ended(page("", "")), "5");
  said(line("BOOKMARK", object("", "6")));
  expect_watch(ended(page("", "")), "6");
}

TEST_F(WatcherTest, ListsAgainWhenItsVersionIsRefusedTooOften) {
  watch_from("5");
  for (std::uint32_t i = 1; i < kWatchRefusalsMax; ++i) {
    expect_wait(ended(status(504, "Timeout", "Too large resource version")));
    expect_watch(waited(), "5");
  }
  expect_wait(ended(status(504)));
  expect_list(waited(), "");
}

TEST_F(WatcherTest, KeepsItsVersionWhileTheServerIsUnavailable) {
  watch_from("5");
  for (int i = 0; i < 50; ++i) {
    expect_wait(ended(connection_reset()));
    expect_watch(waited(), "5");
  }
}

TEST_F(WatcherTest, ResetsTheCountOfRefusalsAfterALine) {
  watch_from("5");
  for (std::uint32_t i = 0; i < 3 * kWatchRefusalsMax; ++i) {
    expect_wait(ended(status(500)));
    EXPECT_EQ(waited().action.kind, ActionKind::kWatch);
    said(line("BOOKMARK", object("", "6")));
  }
}

using WatcherDeathTest = WatcherTest;

TEST_F(WatcherDeathTest, EndsTheProcessOnACallInTheWrongState) {
  start();
  EXPECT_DEATH(said("{}"), "not watching");
  EXPECT_DEATH(silent(), "not watching");
  listed(page("5", ""));
  EXPECT_DEATH(listed(page("5", "")), "not listing");
  EXPECT_DEATH(waited(), "while watching");
}

}  // namespace
}  // namespace mgpu::kube
