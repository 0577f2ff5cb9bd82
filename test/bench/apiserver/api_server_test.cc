// The functions that only the in-memory API server has: its own clock, compaction on demand, and
// the faults of support/. conformance/ tests the behaviour that it shares with a real one.
#include "bench/apiserver/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "test/support/faulty_api_server.h"
#include "test/support/kube_objects.h"
#include "test/support/manual_executor.h"

namespace mgpu::kube {
namespace {

using namespace std::chrono_literals;
using test::Fault;
using test::FaultyApiServer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Json = nlohmann::json;

constexpr const char* kPods = "/api/v1/namespaces/default/pods";

Request request_of(Method method, std::string target, std::string body = "",
                   std::string content_type = "application/json") {
  Request request;
  request.method = method;
  request.target = std::move(target);
  request.body = std::move(body);
  request.content_type = std::move(content_type);
  return request;
}

struct Watched {
  bool opened = false;
  std::vector<std::string> lines;
  std::optional<Response> end;
  std::unique_ptr<Stream> stream;

  std::vector<std::string> types() const {
    std::vector<std::string> types;
    for (const auto& line : lines) types.push_back(Json::parse(line)["type"]);
    return types;
  }
};

class MemoryApiServerTest : public testing::Test {
 protected:
  void start(MemoryApiServer::Options options) {
    server_ = std::make_unique<FaultyApiServer>(executor_, options);
  }
  Response call(Method method, const std::string& target, const std::string& body = "",
                const std::string& content_type = "application/json") {
    return server_->call(request_of(method, target, body, content_type));
  }
  void create_node(const std::string& name) {
    const Response response = call(Method::kPost, "/api/v1/nodes", test::node_json(name));
    EXPECT_EQ(response.status, 201) << response.body;
  }
  void create_pod(const std::string& name) {
    EXPECT_EQ(call(Method::kPost, kPods, test::pod_json(name)).status, 201);
  }
  void send(Request request, std::vector<Response>& answers) {
    server_->send(std::move(request),
                  [&answers](Response response) { answers.push_back(std::move(response)); });
  }
  std::unique_ptr<Watched> watch(const std::string& target) {
    auto watched = std::make_unique<Watched>();
    Watched* const to = watched.get();
    watched->stream =
        server_->stream(request_of(Method::kGet, target),
                        {.on_open = [to](Encoding) { to->opened = true; },
                         .on_line = [to](std::string_view line) { to->lines.emplace_back(line); },
                         .on_end = [to](Response response) { to->end = std::move(response); }});
    return watched;
  }
  void fail_all(Fault fault) {
    server_->set_faults([fault](const Request&) { return fault; });
  }

  test::ManualExecutor executor_;
  std::unique_ptr<FaultyApiServer> server_ = std::make_unique<FaultyApiServer>(
      executor_, MemoryApiServer::Options{.start = std::chrono::sys_seconds(1'800'000'000s)});
};

TEST_F(MemoryApiServerTest, AnswersOnTheExecutorAndNotInsideTheCall) {
  std::vector<Response> answers;
  send(request_of(Method::kGet, "/api/v1/nodes"), answers);
  EXPECT_THAT(answers, IsEmpty());
  executor_.run_ready();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].status, 200);
}

TEST_F(MemoryApiServerTest, NoAnswerComesAfterItsEnd) {
  std::vector<Response> answers;
  send(request_of(Method::kGet, "/api/v1/nodes"), answers);
  const auto watched = watch("/api/v1/nodes?watch=1");
  server_.reset();
  executor_.run_ready();
  EXPECT_THAT(answers, IsEmpty());
  EXPECT_FALSE(watched->opened);
  EXPECT_FALSE(watched->end);
}

TEST_F(MemoryApiServerTest, TimeIsTheExecutorsFromTheStartGiven) {
  executor_.advance(90min);
  create_node("n");
  const Json node = Json::parse(call(Method::kGet, "/api/v1/nodes/n").body);
  EXPECT_EQ(node["metadata"]["creationTimestamp"], "2027-01-15T09:30:00Z");
}

TEST_F(MemoryApiServerTest, DelayPostponesTheAnswer) {
  fail_all({.kind = Fault::Kind::kDelay, .delay = 5ms});
  std::vector<Response> answers;
  send(request_of(Method::kGet, "/api/v1/nodes"), answers);
  executor_.advance(4ms);
  EXPECT_THAT(answers, IsEmpty());
  executor_.advance(1ms);
  EXPECT_THAT(answers, SizeIs(1));
}

TEST_F(MemoryApiServerTest, FaultAnswersInsteadOfServing) {
  fail_all({.status = 429, .body = "slow down", .retry_after = 3s});
  std::vector<Response> answers;
  send(request_of(Method::kPost, "/api/v1/nodes", test::node_json("n")), answers);
  executor_.run_ready();
  ASSERT_THAT(answers, SizeIs(1));
  EXPECT_EQ(answers[0].status, 429);
  EXPECT_EQ(answers[0].body, "slow down");
  EXPECT_EQ(answers[0].retry_after, Duration(3s));
  EXPECT_EQ(call(Method::kGet, "/api/v1/nodes/n").status, 404);
}

TEST_F(MemoryApiServerTest, RefusedConnectionWasNeverSent) {
  fail_all({.kind = Fault::Kind::kRefuse});
  std::vector<Response> answers;
  send(request_of(Method::kPost, "/api/v1/nodes", test::node_json("n")), answers);
  executor_.run_ready();
  ASSERT_THAT(answers, SizeIs(1));
  ASSERT_TRUE(answers[0].failure);
  EXPECT_FALSE(answers[0].failure->sent);
  EXPECT_EQ(call(Method::kGet, "/api/v1/nodes/n").status, 404);
}

TEST_F(MemoryApiServerTest, LostAnswerDoesTheWork) {
  fail_all({.kind = Fault::Kind::kLoseAnswer});
  std::vector<Response> answers;
  send(request_of(Method::kPost, "/api/v1/nodes", test::node_json("n")), answers);
  executor_.run_ready();
  ASSERT_THAT(answers, SizeIs(1));
  ASSERT_TRUE(answers[0].failure);
  EXPECT_TRUE(answers[0].failure->sent);
  EXPECT_EQ(call(Method::kGet, "/api/v1/nodes/n").status, 200);
}

TEST_F(MemoryApiServerTest, DelayBeyondTheTimeoutIsALostAnswerAtTheTimeout) {
  fail_all({.kind = Fault::Kind::kDelay, .delay = 10s});
  std::vector<Response> answers;
  Request request = request_of(Method::kPost, "/api/v1/nodes", test::node_json("n"));
  request.timeout = 4s;
  send(request, answers);
  executor_.advance(3999ms);
  EXPECT_THAT(answers, IsEmpty());
  executor_.advance(1ms);
  ASSERT_THAT(answers, SizeIs(1));
  ASSERT_TRUE(answers[0].failure);
  EXPECT_TRUE(answers[0].failure->sent);
  EXPECT_EQ(call(Method::kGet, "/api/v1/nodes/n").status, 200);
}

TEST_F(MemoryApiServerTest, FaultFunctionIsCalledForEachRequest) {
  int calls = 0;
  server_->set_faults([&](const Request& request) -> std::optional<Fault> {
    ++calls;
    if (request.method == Method::kGet) return std::nullopt;
    return Fault{};
  });
  std::vector<Response> answers;
  send(request_of(Method::kGet, "/api/v1/nodes"), answers);
  send(request_of(Method::kPost, "/api/v1/nodes", test::node_json("n")), answers);
  executor_.run_ready();
  EXPECT_EQ(calls, 2);
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_EQ(answers[1].status, 503);
  server_->set_faults(nullptr);
  send(request_of(Method::kPost, "/api/v1/nodes", test::node_json("n")), answers);
  executor_.run_ready();
  EXPECT_EQ(answers[2].status, 201);
}

TEST_F(MemoryApiServerTest, FaultOnAWatchEndsIt) {
  fail_all({.status = 503});
  const auto refused = watch("/api/v1/nodes?watch=1");
  fail_all({.kind = Fault::Kind::kRefuse});
  const auto unsent = watch("/api/v1/nodes?watch=1");
  executor_.run_ready();
  EXPECT_FALSE(refused->opened);
  ASSERT_TRUE(refused->end);
  EXPECT_EQ(refused->end->status, 503);
  ASSERT_TRUE(unsent->end && unsent->end->failure);
  EXPECT_FALSE(unsent->end->failure->sent);
}

TEST_F(MemoryApiServerTest, DroppedWatchesEndAsALostConnection) {
  const auto watched = watch("/api/v1/nodes?watch=1");
  executor_.run_ready();
  server_->drop_watches();
  create_node("late");
  executor_.run_ready();
  EXPECT_THAT(watched->lines, IsEmpty());
  ASSERT_TRUE(watched->end && watched->end->failure);
  EXPECT_TRUE(watched->end->failure->sent);
}

TEST_F(MemoryApiServerTest, CompactionKeepsOpenWatchesAndRefusesOldVersions) {
  const auto open = watch("/api/v1/nodes?watch=1");
  create_node("a");
  executor_.run_ready();
  server_->compact();
  create_node("b");
  const auto late = watch("/api/v1/nodes?watch=1&resourceVersion=1");
  executor_.run_ready();
  EXPECT_THAT(open->types(), ElementsAre("ADDED", "ADDED"));
  ASSERT_THAT(late->types(), ElementsAre("ERROR"));
  EXPECT_EQ(Json::parse(late->lines[0])["object"]["code"], 410);
  ASSERT_TRUE(late->end);
  EXPECT_EQ(late->end->status, 200);
}

TEST_F(MemoryApiServerTest, HistoryOverItsLimitIsRemoved) {
  start({.history_events = 2});
  for (const char* const name : {"a", "b", "c"}) create_node(name);
  const auto too_old = watch("/api/v1/nodes?watch=1&resourceVersion=1");
  const auto held = watch("/api/v1/nodes?watch=1&resourceVersion=2");
  executor_.run_ready();
  EXPECT_THAT(too_old->types(), ElementsAre("ERROR"));
  EXPECT_THAT(held->types(), ElementsAre("ADDED", "ADDED"));
}

TEST_F(MemoryApiServerTest, BookmarksComeAtTheirInterval) {
  start({.bookmark_interval = 10s});
  const auto with = watch("/api/v1/nodes?watch=1&allowWatchBookmarks=true");
  const auto without = watch("/api/v1/nodes?watch=1");
  executor_.advance(25s);
  EXPECT_THAT(with->types(), ElementsAre("BOOKMARK", "BOOKMARK"));
  EXPECT_THAT(without->lines, IsEmpty());
}

TEST_F(MemoryApiServerTest, BookmarkNeverOvertakesAnEvent) {
  start({.bookmark_interval = 10s});
  const auto watched = watch("/api/v1/nodes?watch=1&allowWatchBookmarks=true");
  executor_.run_ready();
  executor_.after(10s, [&] { create_node("n"); });
  executor_.advance(10s);
  std::string last = "0";
  for (const std::string& line : watched->lines) {
    const std::string version = Json::parse(line)["object"]["metadata"]["resourceVersion"];
    EXPECT_LE(std::stoi(last), std::stoi(version)) << line;
    last = version;
  }
}

TEST_F(MemoryApiServerTest, WatchWithoutATimeoutEndsWithinTheHour) {
  const auto watched = watch("/api/v1/nodes?watch=1");
  executor_.advance(29min);
  EXPECT_FALSE(watched->end);
  executor_.advance(31min);
  ASSERT_TRUE(watched->end);
  EXPECT_EQ(watched->end->status, 200);
  EXPECT_FALSE(watched->end->failure);
}

TEST_F(MemoryApiServerTest, ClosedWatchCallsNothingAndLeavesNoTimer) {
  auto watched = watch("/api/v1/nodes?watch=1&timeoutSeconds=5&allowWatchBookmarks=true");
  executor_.run_ready();
  create_node("n");
  watched->stream.reset();
  executor_.run_ready();
  EXPECT_THAT(watched->lines, IsEmpty());
  EXPECT_EQ(executor_.pending(), 0U);
  executor_.advance(10s);
  EXPECT_FALSE(watched->end);
}

TEST_F(MemoryApiServerTest, HandlerMayCloseItsOwnWatch) {
  std::unique_ptr<Stream> stream;
  int lines = 0;
  stream = server_->stream(request_of(Method::kGet, "/api/v1/nodes?watch=1"),
                           {.on_open = [](Encoding) {},
                            .on_line =
                                [&](std::string_view) {
                                  ++lines;
                                  stream.reset();
                                },
                            .on_end = [](Response) { ADD_FAILURE(); }});
  create_node("a");
  create_node("b");
  executor_.run_ready();
  EXPECT_EQ(lines, 1);
}

TEST_F(MemoryApiServerTest, HandlerMayCloseItsOwnWatchAsItOpensOrEnds) {
  std::unique_ptr<Stream> opening;
  std::unique_ptr<Stream> ending;
  opening = server_->stream(request_of(Method::kGet, "/api/v1/nodes?watch=1&timeoutSeconds=1"),
                            {.on_open = [&](Encoding) { opening.reset(); },
                             .on_line = [](std::string_view) { ADD_FAILURE(); },
                             .on_end = [](Response) { ADD_FAILURE(); }});
  int ended = 0;
  ending = server_->stream(request_of(Method::kGet, "/api/v1/nodes?watch=1&timeoutSeconds=1"),
                           {.on_open = [](Encoding) {},
                            .on_line = [](std::string_view) {},
                            .on_end =
                                [&](Response) {
                                  ++ended;
                                  ending.reset();
                                }});
  executor_.run_ready();
  EXPECT_FALSE(opening);
  executor_.advance(2s);
  EXPECT_EQ(ended, 1);
  EXPECT_FALSE(ending);
}

TEST_F(MemoryApiServerTest, CallAnswersAWatchAsAList) {
  create_node("n");
  const Json list = Json::parse(call(Method::kGet, "/api/v1/nodes?watch=1").body);
  EXPECT_EQ(list["kind"], "NodeList");
}

TEST_F(MemoryApiServerTest, UnsupportedSelectorsAndVersionsAreRefusedNotIgnored) {
  EXPECT_EQ(call(Method::kGet, "/api/v1/pods?labelSelector=a%3Db").status, 400);
  EXPECT_EQ(call(Method::kGet, "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact").status,
            400);
}

TEST_F(MemoryApiServerTest, HostileTargetsAreRefused) {
  const std::string targets[] = {"",
                                 "/",
                                 "?",
                                 "/api/v1/",
                                 "/api/v1/nodesx",
                                 "/api/v1/nodes//",
                                 "/api/v1/nodes/%",
                                 "/api/v1/nodes/%zz/status",
                                 "/api/v1/namespaces//pods",
                                 "/api/v1/namespaces/" + std::string(100'000, '/'),
                                 std::string(1'000'000, '%')};
  for (const std::string& target : targets) {
    EXPECT_EQ(call(Method::kGet, target).status, 404) << target.substr(0, 100);
  }
  for (const char* const token :
       {"", ".", "..", "1.1.zz", "1.1.6", "9999.0.61", "-1.0.61", "1.0."}) {
    const int status =
        call(Method::kGet, std::string("/api/v1/nodes?limit=1&continue=") + token).status;
    EXPECT_TRUE(status == 400 || status == 200) << token;
  }
}

TEST_F(MemoryApiServerTest, NamesThatAreNotUtf8AreRefused) {
  const std::string name_space = "/api/v1/namespaces/%FF%FE/pods";
  EXPECT_EQ(call(Method::kPost, name_space, test::pod_json("p")).status, 422);
  const Response missing = call(Method::kGet, name_space + "/%FF");
  EXPECT_EQ(missing.status, 404);
  EXPECT_TRUE(Json::accept(missing.body));
  EXPECT_EQ(call(Method::kPost, kPods, "{\"metadata\":{\"name\":\"\xff\"}}").status, 400);
}

TEST_F(MemoryApiServerTest, ObjectsOfAnyShapeAreAnswered) {
  create_pod("p");
  const char* const bodies[] = {
      R"({"metadata":null})",
      R"({"metadata":{"name":"x"},"spec":null})",
      R"({"metadata":{"name":"x"},"spec":{"containers":null}})",
      R"({"metadata":{"name":"x"},"spec":{"containers":{}}})",
      R"({"metadata":{"name":"x"},"spec":{"containers":[null]}})",
      R"({"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i","resources":7}]}})",
      R"({"metadata":{"name":"x"},"spec":{"containers":[{"resources":{"limits":[1]}}]}})",
      R"({"metadata":{"name":"x"},"spec":[],"status":[]})",
      R"({"metadata":[]})",
      R"(null)",
      R"(7)",
      R"({"metadata":{"name":"x","annotations":[]}})",
      R"({"metadata":{"name":1e999}})",
      R"({"kind":7})",
  };
  for (const char* const body : bodies) {
    const int created = call(Method::kPost, kPods, body).status;
    EXPECT_TRUE(created == 400 || created == 422) << created << " " << body;
    const std::string pod = std::string(kPods) + "/p";
    call(Method::kPatch, pod, body, "application/merge-patch+json");
    call(Method::kPatch, pod + "/status", body, "application/merge-patch+json");
    EXPECT_GE(call(Method::kPut, pod, body).status, 200);
    EXPECT_GE(call(Method::kPost, pod + "/binding", body).status, 400);
    call(Method::kDelete, pod, body);
    create_node("n");
    call(Method::kPatch, "/api/v1/nodes/n/status", body, "application/merge-patch+json");
    EXPECT_EQ(call(Method::kDelete, "/api/v1/nodes/n").status, 200);
    if (call(Method::kGet, pod).status == 404) create_pod("p");
  }
}

TEST_F(MemoryApiServerTest, ConcurrentWritersGetDistinctVersionsAndWatchesSeeAllInOrder) {
  const auto watched = watch("/api/v1/nodes?watch=1");
  executor_.run_ready();
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::thread> writers;
  for (int thread = 0; thread < kThreads; ++thread) {
    writers.emplace_back([this, thread] {
      for (int i = 0; i < kEach; ++i) {
        create_node("n" + std::to_string(thread) + "-" + std::to_string(i));
        if (i % 10 == 0) server_->compact();
        call(Method::kGet, "/api/v1/nodes?limit=10");
      }
    });
  }
  for (auto& writer : writers) writer.join();
  executor_.run_ready();
  ASSERT_THAT(watched->lines, SizeIs(kThreads * kEach));
  std::vector<int> versions;
  for (const std::string& line : watched->lines) {
    versions.push_back(
        std::stoi(Json::parse(line)["object"]["metadata"]["resourceVersion"].get<std::string>()));
  }
  EXPECT_TRUE(std::is_sorted(versions.begin(), versions.end()));
  EXPECT_EQ(std::adjacent_find(versions.begin(), versions.end()), versions.end());
}

}  // namespace
}  // namespace mgpu::kube
