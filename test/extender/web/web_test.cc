#include "extender/web/web.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "extender/web/limits.h"
#include "extender/web/static_files.h"
#include "test/extender/web/scripted_prometheus.h"
#include "test/support/faulty_api_server.h"
#include "test/support/kube_objects.h"
#include "test/support/ledger_text.h"
#include "test/support/manual_executor.h"

namespace mgpu::extender {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using WebJson = nlohmann::json;

// A page that reads each part at once, or does not read.
class Reader {
 public:
  explicit Reader(http::NextPart next) : next_(std::move(next)) {}
  // Asks for the next part, unless it has asked.
  void ask() {
    if (std::exchange(asked_, true)) return;
    next_([this](const std::string& part) {
      text_ += part;
      asked_ = false;
    });
  }
  std::string take() { return std::exchange(text_, ""); }
  void leave() { next_ = nullptr; }

 private:
  http::NextPart next_;
  bool asked_ = false;
  std::string text_;
};

class WebPage : public testing::Test {
 protected:
  explicit WebPage(bool with_prometheus = false) {
    options.contract = *Contract::for_domain(kDefaultResourceDomain);
    options.policy = *find_policy("binpack");
    ledger.apply_node(test::facts_of("n1: 0[100/1000]"));
    web.emplace(Web::Dependencies{.instance = "extender-0",
                                  .ledger = ledger.reader(),
                                  .options = options,
                                  .transport = api_server,
                                  .prometheus = with_prometheus ? &prometheus : nullptr,
                                  .readiness = [this] { return readiness; },
                                  .unix_ms = [this] { return unix_ms; }},
                executor);
    router.emplace();
    web->add_routes(*router);
  }
  ~WebPage() override {
    router.reset();
    web.reset();
    executor.run_ready();
  }

  http::Response get(const std::string& path, const std::string& query = "",
                     const std::string& tag = "") {
    std::optional<http::Response> answer;
    router->route({.method = "GET", .path = path, .query = query, .if_none_match = tag},
                  [&](http::Response given) { answer = std::move(given); });
    return std::move(answer).value();
  }
  Reader open(const std::string& query = "") {
    http::Response answer = get("/web/events", query);
    EXPECT_EQ(answer.status, 200);
    return Reader(std::move(answer.next_part));
  }
  // What the page gets within this time.
  std::string events(Reader& reader, Duration time = 0ms) {
    reader.ask();
    executor.run_ready();
    for (Duration passed{}; passed < time; passed += 100ms) {
      executor.advance(100ms);
      reader.ask();
      executor.run_ready();
    }
    return reader.take();
  }
  static std::vector<WebJson> data_of(const std::string& events, const std::string& name) {
    std::vector<WebJson> all;
    const std::string begin = "event: " + name + "\ndata: ";
    for (auto at = events.find(begin); at != std::string::npos; at = events.find(begin, at + 1)) {
      const auto data = at + begin.size();
      all.push_back(WebJson::parse(events.substr(data, events.find('\n', data) - data)));
    }
    return all;
  }

  test::ManualExecutor executor;
  test::FaultyApiServer api_server{executor, {}};
  test::ScriptedPrometheus prometheus{executor};
  Ledger ledger;
  VerbOptions options;
  Readiness readiness;
  std::int64_t unix_ms = 5000;
  std::optional<Web> web;
  std::optional<http::Router> router;
};

// --- files ---------------------------------------------------------------------------------------

TEST_F(WebPage, HasItsFilesWithTypesAndPolicy) {
  const http::Response page = get("/web/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, StartsWith("<!doctype html>"));
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_EQ(get("/web/main.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(get("/web/page.css").content_type, "text/css; charset=utf-8");
  EXPECT_EQ(get("/web/nothing.js").status, 404);
  for (const StaticFile& file : web_files()) {
    const auto headers = file_response(file, {.method = "GET", .path = ""}).headers;
    EXPECT_THAT(headers,
                Contains(std::pair<std::string, std::string>("X-Content-Type-Options", "nosniff")));
    const auto policy = std::ranges::find(headers, "Content-Security-Policy",
                                          &std::pair<std::string, std::string>::first);
    ASSERT_NE(policy, headers.end());
    EXPECT_THAT(policy->second, StartsWith("default-src 'none'; script-src 'self'; "));
    EXPECT_THAT(policy->second, Not(HasSubstr("unsafe")));
  }
}

TEST_F(WebPage, NamesNoOtherSite) {
  for (const StaticFile& file : web_files()) {
    for (const char* address : {"http://", "https://", "//cdn", "@import", "url("}) {
      std::string text(file.text);
      const std::string name_space = "http://www.w3.org/2000/svg";  // it is not fetched
      if (const auto at = text.find(name_space); at != text.npos) text.erase(at, name_space.size());
      EXPECT_THAT(text, Not(HasSubstr(address))) << file.name;
    }
  }
}

TEST_F(WebPage, IsNotSentAgainToABrowserThatHasIt) {
  const auto headers = get("/web/").headers;
  const auto tag = std::ranges::find(headers, "ETag", &std::pair<std::string, std::string>::first);
  ASSERT_NE(tag, headers.end());
  EXPECT_EQ(get("/web/", "", tag->second).status, 304);
  EXPECT_EQ(get("/web/", "", "\"other\"").status, 200);
}

TEST_F(WebPage, IsFoundFromTheRoot) {
  for (const char* path : {"/", "/web"}) {
    const http::Response answer = get(path);
    EXPECT_EQ(answer.status, 302);
    EXPECT_THAT(answer.headers, Contains(std::pair<std::string, std::string>("Location", "web/")));
  }
}

// --- events --------------------------------------------------------------------------------------

TEST_F(WebPage, GetsTheClusterFirst) {
  Reader reader = open();
  const std::string first = events(reader);
  EXPECT_THAT(first, StartsWith("event: hello\n"));
  EXPECT_EQ(data_of(first, "hello").at(0)["policy"], "binpack");
  EXPECT_EQ(data_of(first, "hello").at(0)["instance"], "extender-0");
  EXPECT_EQ(data_of(first, "nodes").at(0)["nodes"][0][0], "n1");
  EXPECT_EQ(data_of(first, "synced").size(), 1U);
  EXPECT_EQ(data_of(first, "history").at(0)["restart"], true);
  EXPECT_EQ(data_of(first, "status").at(0)["ready"], true);
  EXPECT_THAT(first, EndsWith("\n\n"));
}

TEST_F(WebPage, GetsChangesWithoutAsking) {
  Reader reader = open();
  events(reader);
  ledger.apply_pod(test::bound_claim("p", "n1", "30/300", "0"));
  readiness.draining = true;
  const std::string later = events(reader, kWebUpdateInterval);
  EXPECT_EQ(data_of(later, "nodes").at(0)["nodes"][0][3][0][1], "p");
  EXPECT_EQ(data_of(later, "status").at(0)["draining"], true);
}

TEST_F(WebPage, GetsABeatWhileNothingChanges) {
  Reader reader = open();
  events(reader, kWebUpdateInterval);
  EXPECT_EQ(data_of(events(reader, kWebHeartbeatInterval + 2 * kWebUpdateInterval), "beat").size(),
            1U);
}

TEST_F(WebPage, IsToldWhatKeepsPodsFromANode) {
  Reader reader = open();
  EXPECT_EQ(data_of(events(reader), "nodes").at(0)["nodes"][0].size(), 4U);
  NodeFacts facts = test::facts_of("n1: 0[100/1000]");
  facts.gates.cordoned = true;
  facts.gates.taints.push_back(
      {.key = "pool", .value = "a", .effect = "NoSchedule", .time_added = ""});
  ledger.apply_node(std::move(facts));
  const auto nodes = data_of(events(reader, kWebUpdateInterval), "nodes");
  EXPECT_EQ(nodes.at(0)["nodes"][0][4], "cordoned, taint pool:NoSchedule");
}

TEST_F(WebPage, IsToldThatSomethingElseIsWrongWithACard) {
  Reader reader = open();
  events(reader);
  for (const char* health : {"XID 48", "XID 79"}) {
    NodeFacts facts = test::facts_of("n1: 0[100/1000]");
    facts.cards[0].health = health;
    ledger.apply_node(std::move(facts));
    const auto nodes = data_of(events(reader, kWebUpdateInterval), "nodes");
    EXPECT_EQ(nodes.at(0)["nodes"][0][2][0][12], health);
  }
}

TEST_F(WebPage, ThatReadsSlowlyGetsTheLastStateOnly) {
  Reader reader = open();
  events(reader);
  for (int memory = 1001; memory <= 1050; ++memory) {
    ledger.apply_node(test::facts_of("n1: 0[100/" + std::to_string(memory) + "]"));
    executor.advance(kWebUpdateInterval);
  }
  const auto nodes = data_of(events(reader, kWebUpdateInterval), "nodes");
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0]["nodes"][0][2][0][8], 1050);
}

TEST_F(WebPage, ThatConnectsAgainGetsWhatItHasMissed) {
  Reader reader = open();
  const std::string first = events(reader);
  const std::string epoch = data_of(first, "hello").at(0)["epoch"];
  const auto version = data_of(first, "nodes").at(0)["version"].get<std::uint64_t>();
  reader.leave();
  ledger.apply_node(test::facts_of("n2: 0[100/1000]"));
  Reader again = open("epoch=" + epoch + "&since=" + std::to_string(version));
  const auto nodes = data_of(events(again, kWebUpdateInterval), "nodes").at(0)["nodes"];
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0][0], "n2");
  Reader other = open("epoch=of-another-process&since=" + std::to_string(version));
  EXPECT_EQ(data_of(events(other), "nodes").at(0)["nodes"].size(), 2U);
}

TEST_F(WebPage, IsRefusedWhileTooManyAreOpen) {
  std::vector<Reader> readers;
  for (std::size_t i = 0; i < kWebClientsMax; ++i) readers.push_back(open());
  const http::Response refused = get("/web/events");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("pages are open"));
  EXPECT_FALSE(refused.next_part);
  readers.back().leave();
  EXPECT_EQ(get("/web/events").status, 503) << "its client has not been removed yet";
  executor.run_ready();
  EXPECT_EQ(get("/web/events").status, 200);
}

// --- Prometheus ----------------------------------------------------------------------------------

class WebWithPrometheus : public WebPage {
 protected:
  WebWithPrometheus() : WebPage(true) { unix_ms = 1'767'225'600'000; }
  static std::string points_of(int claims) {
    return test::matrix_text(
        R"({"metric":{"__name__":"mgpu_extender_claims"},"values":[[1767225600,")" +
        std::to_string(claims) + "\"]]}");
  }
  // To the query of the history, and to that of idle pods.
  void answer(int claims) {
    prometheus.answer(points_of(claims));
    prometheus.answer(
        test::vector_text(R"({"metric":{"namespace":"a","pod":"b"},"value":[1,"0"]})"));
  }
  WebJson history(Reader& reader, Duration time = kWebUpdateInterval) {
    const auto all = data_of(events(reader, time), "history");
    return all.empty() ? WebJson() : all.back();
  }
};

TEST_F(WebPage, HasTheHistorySinceItsStartWithoutPrometheus) {
  Reader reader = open();
  const WebJson history = data_of(events(reader), "history").at(0);
  EXPECT_EQ(history["source"], "extender");
  EXPECT_FALSE(history.contains("problem"));
}

TEST_F(WebWithPrometheus, ShowsTheHistoryOfPrometheus) {
  Reader reader = open();
  EXPECT_EQ(history(reader)["source"], "extender") << "until Prometheus has answered";
  answer(7);
  const WebJson shown = history(reader);
  EXPECT_EQ(shown["source"], "prometheus");
  EXPECT_EQ(shown["restart"], true);
  EXPECT_EQ(shown["intervalSeconds"], 60);
  EXPECT_EQ(shown["points"].dump(), "[[1767225600000,null,null,null,null,null,7,null,null]]");
  EXPECT_EQ(shown["idle"].dump(), R"([["a","b"]])");
  EXPECT_TRUE(history(reader).is_null()) << "it is sent once";
  Reader later = open();
  EXPECT_EQ(history(later)["source"], "prometheus");
}

TEST_F(WebWithPrometheus, FallsBackAndSaysWhyUntilPrometheusAnswersAgain) {
  Reader reader = open();
  history(reader);
  answer(7);
  history(reader);
  history(reader, kPrometheusInterval);
  prometheus.fail("connection refused");
  const WebJson shown = history(reader);
  EXPECT_EQ(shown["source"], "extender");
  EXPECT_EQ(shown["restart"], true);
  EXPECT_THAT(shown["problem"].get<std::string>(), HasSubstr("connection refused"));
  EXPECT_GE(shown["points"].size(), 5U) << "a minute since the start";
  const WebJson more = history(reader, kHistoryInterval + kWebUpdateInterval);
  EXPECT_EQ(more["restart"], false);
  history(reader, kPrometheusInterval);
  answer(8);
  EXPECT_EQ(history(reader)["source"], "prometheus");
}

TEST_F(WebWithPrometheus, AsksNothingWithoutAPage) {
  executor.advance(10 * kPrometheusInterval);
  EXPECT_EQ(prometheus.requests.size(), 0U);
  Reader reader = open();
  history(reader);
  EXPECT_EQ(prometheus.requests.size(), 1U);
  answer(7);
  reader.leave();
  executor.advance(10 * kPrometheusInterval);
  EXPECT_EQ(prometheus.requests.size(), 2U);
}

TEST_F(WebWithPrometheus, AnswersWhatAPodUses) {
  std::optional<http::Response> answer;
  router->route({.method = "GET", .path = "/web/use", .query = "namespace=a&pod=b"},
                [&](http::Response given) { answer = std::move(given); });
  EXPECT_FALSE(answer) << "nothing is done on the thread of the server";
  executor.run_ready();
  prometheus.answer(test::vector_text(""));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_THAT(answer->headers,
              Contains(std::pair<std::string, std::string>("X-Content-Type-Options", "nosniff")));
}

// --- waiting pods --------------------------------------------------------------------------------

class WebWaiting : public WebPage {
 protected:
  void create(const std::string& name, const std::string& core) {
    kube::Request request;
    request.method = kube::Method::kPost;
    request.target = "/api/v1/namespaces/default/pods";
    request.content_type = "application/json";
    test::Amounts limits;
    if (!core.empty()) limits["vke.volcengine.com/mgpu-core"] = core;
    request.body = test::pod_json(name, limits);
    ASSERT_EQ(api_server.call(request).status, 201);
  }
  WebJson waiting(Reader& reader) {
    const auto all = data_of(events(reader, kWaitingInterval + 2 * kWebUpdateInterval), "waiting");
    return all.empty() ? WebJson() : all.back();
  }
};

TEST_F(WebWaiting, AreThoseThatRequestCards) {
  create("gpu", "200");
  create("other", "");
  Reader reader = open();
  const WebJson seen = waiting(reader);
  EXPECT_EQ(seen["listed"], true);
  ASSERT_EQ(seen["pods"].size(), 1U) << seen.dump();
  EXPECT_EQ(seen["pods"][0][1], "gpu");
  EXPECT_EQ(seen["pods"][0][4], WebJson::parse(R"([["app", 2, 100, -1]])"));
}

TEST_F(WebWaiting, AreFollowedWhileAPageIsOpen) {
  Reader reader = open();
  EXPECT_EQ(waiting(reader)["pods"].size(), 0U);
  create("gpu", "100");
  EXPECT_EQ(waiting(reader)["pods"].size(), 1U);
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.target = "/api/v1/namespaces/default/pods/gpu?gracePeriodSeconds=0";
  ASSERT_TRUE(api_server.call(request).ok());
  EXPECT_EQ(waiting(reader)["pods"].size(), 0U);
}

TEST_F(WebWaiting, AreLimitedInNumber) {
  for (std::size_t i = 0; i < kWaitingPodsMax + 5; ++i) create("gpu-" + std::to_string(i), "100");
  Reader reader = open();
  const WebJson seen = waiting(reader);
  EXPECT_EQ(seen["pods"].size(), kWaitingPodsMax);
  EXPECT_EQ(seen["more"], 5);
}

TEST_F(WebWaiting, AreNotWatchedWithoutAPage) {
  std::size_t watches = 0;
  api_server.set_faults([&](const kube::Request& request) {
    if (request.target.find("watch=") != std::string::npos) ++watches;
    return std::optional<test::Fault>();
  });
  executor.advance(kWebHeartbeatInterval);
  EXPECT_EQ(watches, 0U);
  Reader reader = open();
  waiting(reader);
  EXPECT_EQ(watches, 1U);
  reader.leave();
  executor.advance(kWaitingGrace + 2s);
  api_server.drop_watches();
  executor.advance(1min);
  EXPECT_EQ(watches, 1U) << "the watch was opened again";
}

}  // namespace
}  // namespace mgpu::extender
