#include "common/kube/watch/reflector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <latch>
#include <optional>
#include <thread>

#include "common/base/asio_executor.h"
#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"
#include "test/support/manual_executor.h"

namespace mgpu::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Keeps requests until the test answers them.
class HeldTransport final : public Transport {
 public:
  struct Held {
    Request request;
    std::function<void(Response)> done;
  };
  struct HeldStream {
    Request request;
    StreamEvents events;
    std::weak_ptr<bool> open;
  };

  explicit HeldTransport(Executor& executor) : executor_(executor) {}

  void send(Request request, std::function<void(Response)> done) override {
    lists.push_back({std::move(request), std::move(done)});
  }
  std::unique_ptr<Stream> stream(Request request, StreamEvents events) override {
    auto stream = std::make_unique<OpenStream>();
    watches.push_back({std::move(request), std::move(events), stream->open});
    return stream;
  }
  Executor& executor() override { return executor_; }

  std::deque<Held> lists;
  std::deque<HeldStream> watches;

 private:
  struct OpenStream final : Stream {
    std::shared_ptr<bool> open = std::make_shared<bool>(true);
  };
  Executor& executor_;
};

Response reply(int status, std::string body = "") {
  return {status, std::move(body), std::nullopt, std::nullopt};
}

std::string object_json(const std::string& name, const std::string& version) {
  return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + version + R"("}})";
}

std::string list_json(const std::string& version, const std::string& items) {
  return R"({"metadata":{"resourceVersion":")" + version + R"("},"items":[)" + items + "]}";
}

Result<std::string> read_name(std::string_view json) {
  auto pod = read_pod(json);
  if (!pod) return pod.error();
  return pod->metadata.name;
}

std::string relist_text(const std::vector<std::string>& names, bool complete) {
  std::string text = complete ? "relist" : "incomplete relist";
  for (const std::string& name : names) text += " " + name;
  return text;
}

class ReflectorTest : public ::testing::Test {
 public:
  ReflectorTest() { make(); }

  void make() {
    reflector_.emplace(
        "pods", Resource{"/pods", ""}, transport_,
        Consumer<std::string>{
            .read = read_name,
            .apply = [this](const std::string& name) { take("apply " + name); },
            .remove = [this](const std::string& name) { take("remove " + name); },
            .relist = [this](const std::vector<std::string>& names,
                             bool complete) { take(relist_text(names, complete)); }},
        ReflectorEvents{
            .on_problem = [this](const std::string& problem) { problems_.push_back(problem); },
            .on_unreadable = [this](const std::string& why) { unreadable_.push_back(why); },
            .on_change = [this] { ++changes_; }});
  }
  void take(const std::string& call) {
    seen_.push_back(call);
    synced_at_.push_back(reflector_ ? reflector_->synced() : false);
    if (on_call_) on_call_(call);
  }
  void start() {
    reflector_->start();
    executor_.run_ready();
  }
  void list(const Response& response) {
    const auto held = transport_.lists.front();
    transport_.lists.pop_front();
    held.done(response);
    executor_.run_ready();
  }
  void watch_from(const std::string& version) {
    start();
    list(reply(200, list_json(version, "")));
    seen_.clear();
  }
  void say(const std::string& type, const std::string& text) {
    transport_.watches.back().events.on_line(R"({"type":")" + type + R"(","object":)" + text + "}");
    executor_.run_ready();
  }
  bool open(std::size_t watch) const { return !transport_.watches.at(watch).open.expired(); }

  test::ManualExecutor executor_{1};
  HeldTransport transport_{executor_};
  std::vector<std::string> seen_;
  std::vector<bool> synced_at_;
  std::vector<std::string> problems_;
  std::vector<std::string> unreadable_;
  int changes_ = 0;
  std::function<void(const std::string&)> on_call_;
  std::optional<Reflector> reflector_;
};

TEST_F(ReflectorTest, ListsThenWatches) {
  reflector_->start();
  EXPECT_THAT(transport_.lists, IsEmpty());  // not inside start()
  executor_.run_ready();
  ASSERT_THAT(transport_.lists, SizeIs(1));
  EXPECT_EQ(transport_.lists[0].request.target, "/pods?limit=500");
  list(reply(200, list_json("5", object_json("a", "1"))));
  EXPECT_THAT(seen_, ElementsAre("relist a"));
  ASSERT_THAT(transport_.watches, SizeIs(1));
  EXPECT_THAT(transport_.watches[0].request.target, HasSubstr("resourceVersion=5&"));
  say("ADDED", object_json("b", "6"));
  say("DELETED", object_json("b", "7"));
  EXPECT_THAT(seen_, ElementsAre("relist a", "apply b", "remove b"));
  EXPECT_EQ(changes_, 3);
}

TEST_F(ReflectorTest, DeliversARelistOnlyAfterItsLastPage) {
  start();
  list(reply(200, R"({"metadata":{"resourceVersion":"5","continue":"t"},"items":[)" +
                      object_json("a", "1") + "]}"));
  EXPECT_THAT(seen_, IsEmpty());
  list(reply(200, list_json("5", object_json("b", "2") + "," + object_json("c", "3"))));
  EXPECT_THAT(seen_, ElementsAre("relist a b c"));
  EXPECT_EQ(changes_, 1);
}

TEST_F(ReflectorTest, DropsTheFirstPartOfARelistThatStartsOver) {
  start();
  list(reply(200, R"({"metadata":{"resourceVersion":"5","continue":"t"},"items":[{"metadata":7},)" +
                      object_json("a", "1") + "]}"));
  list(reply(410));
  list(reply(200, list_json("6", object_json("b", "2"))));
  EXPECT_THAT(seen_, ElementsAre("relist b"));
}

TEST_F(ReflectorTest, SkipsAndReportsAnObjectThatCannotBeRead) {
  watch_from("5");
  const int changes = changes_;
  say("ADDED", R"({"metadata":{"name":"a","namespace":"n","resourceVersion":"6"},"spec":7})");
  say("DELETED", R"({"spec":7})");
  EXPECT_THAT(seen_, IsEmpty());
  EXPECT_EQ(changes_, changes);
  EXPECT_THAT(unreadable_,
              ElementsAre("pods: n/a cannot be read: spec must be an object, is number 7",
                          "pods: an object cannot be read: spec must be an object, is number 7"));
  say("ADDED", object_json("b", "8"));
  EXPECT_THAT(seen_, ElementsAre("apply b"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(ReflectorTest, ReadsProtobufOnlyWithItsReader) {
  Consumer<std::string> consumer{.read = read_name,
                                 .apply = [this](const std::string& name) { take(name); },
                                 .remove = {},
                                 .relist = {}};
  const WatchEvent event{WatchEvent::Kind::kApply, "\x0a\x03\x0a\x01p", Encoding::kProtobuf};
  EXPECT_EQ(ObjectEvents<std::string>(consumer).on_event(event).unreadable,
            "p cannot be read: it is in protobuf, expected JSON");
  consumer.read_protobuf = [](std::string_view) { return Result<std::string>("from protobuf"); };
  EXPECT_TRUE(ObjectEvents<std::string>(consumer).on_event(event).called);
  EXPECT_THAT(seen_, ElementsAre("from protobuf"));
}

TEST_F(ReflectorTest, MarksARelistWithAnUnreadableObjectAsIncomplete) {
  start();
  list(reply(200,
             list_json("5", object_json("a", "1") + R"(,{"spec":7},)" + object_json("b", "1"))));
  EXPECT_THAT(seen_, ElementsAre("incomplete relist a b"));
  EXPECT_THAT(unreadable_, SizeIs(1));
  transport_.watches.back().events.on_end(reply(410));
  executor_.run_ready();
  list(reply(200, list_json("9", object_json("a", "1"))));
  EXPECT_THAT(seen_, ElementsAre("incomplete relist a b", "relist a"));
}

TEST_F(ReflectorTest, NamesTheObjectOfALineThatIsCutOff) {
  watch_from("5");
  transport_.watches.back().events.on_line(
      R"({"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"6")");
  EXPECT_THAT(unreadable_, ElementsAre(HasSubstr("pods: a in a watch of /pods: not JSON")));
}

TEST_F(ReflectorTest, IsSyncedAfterTheRelistWasDelivered) {
  start();
  EXPECT_FALSE(reflector_->synced());
  list(reply(200, list_json("5", object_json("a", "1"))));
  EXPECT_TRUE(reflector_->synced());
  EXPECT_THAT(synced_at_, ElementsAre(false));
}

TEST_F(ReflectorTest, ReportsAProblemWithItsNameAndContinues) {
  start();
  list(reply(503));
  EXPECT_THAT(problems_, ElementsAre("pods: list /pods: HTTP 503"));
  EXPECT_THAT(transport_.lists, IsEmpty());
  executor_.advance(kBackoffFirst);
  EXPECT_THAT(transport_.lists, SizeIs(1));
}

TEST_F(ReflectorTest, OpensTheWatchAgainAndClosesTheOldOne) {
  watch_from("5");
  say("ADDED", object_json("b", "6"));
  transport_.watches.back().events.on_end(reply(200));
  executor_.run_ready();
  ASSERT_THAT(transport_.watches, SizeIs(2));
  EXPECT_THAT(transport_.watches[1].request.target, HasSubstr("resourceVersion=6&"));
  EXPECT_FALSE(open(0));
  EXPECT_TRUE(open(1));
}

TEST_F(ReflectorTest, IgnoresLinesOfAnAbandonedWatch) {
  watch_from("5");
  const auto old = transport_.watches.back().events;
  old.on_line("{garbage");
  old.on_line(R"({"type":"ADDED","object":)" + object_json("x", "9") + "}");
  old.on_end(reply(200));
  executor_.run_ready();
  EXPECT_THAT(seen_, IsEmpty());
  EXPECT_THAT(transport_.lists, SizeIs(1));
  EXPECT_THAT(problems_, SizeIs(1));
}

TEST_F(ReflectorTest, ClosesAWatchThatIsSilent) {
  watch_from("5");
  executor_.advance(kWatchSilenceMax - Duration(1));
  say("BOOKMARK", object_json("", "6"));
  executor_.advance(kWatchSilenceMax - Duration(1));
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_TRUE(open(0));
  executor_.advance(Duration(1));
  EXPECT_THAT(problems_, SizeIs(1));
  EXPECT_FALSE(open(0));
  executor_.advance(kBackoffFirst);
  ASSERT_THAT(transport_.watches, SizeIs(2));
  EXPECT_THAT(transport_.watches[1].request.target, HasSubstr("resourceVersion=6&"));
}

TEST_F(ReflectorTest, ReportsHowLongTheServerHasBeenSilent) {
  watch_from("5");
  EXPECT_EQ(reflector_->silent_for(), Duration(0));
  executor_.advance(Duration(5000));
  EXPECT_EQ(reflector_->silent_for(), Duration(5000));
  say("BOOKMARK", object_json("", "6"));
  EXPECT_EQ(reflector_->silent_for(), Duration(0));
  transport_.watches.back().events.on_end(reply(503));
  executor_.advance(Duration(100));
  EXPECT_EQ(reflector_->silent_for(), Duration(100));
}

TEST_F(ReflectorTest, MayBeDestroyedByItsOwnHandlers) {
  on_call_ = [&](const std::string&) { reflector_.reset(); };
  start();
  list(reply(200, list_json("5", object_json("a", "1") + "," + object_json("b", "2"))));
  EXPECT_THAT(seen_, SizeIs(1));
  EXPECT_EQ(changes_, 0);
  EXPECT_THAT(transport_.watches, IsEmpty());
}

TEST_F(ReflectorTest, MayBeDestroyedByItsConsumerWhileItWatches) {
  watch_from("5");
  on_call_ = [&](const std::string&) { reflector_.reset(); };
  say("ADDED", object_json("b", "6"));
  say("ADDED", object_json("c", "7"));
  EXPECT_THAT(seen_, ElementsAre("apply b"));
  EXPECT_FALSE(open(0));
}

TEST_F(ReflectorTest, CallsNothingAfterItsEndInEachOfItsStates) {
  const std::function<void()> states[] = {
      [&] {},
      [&] { reflector_->start(); },
      [&] { start(); },
      [&] { watch_from("5"); },
      [&] {
        start();
        list(reply(503));
      },
  };
  for (const auto& reach : states) {
    transport_.lists.clear();
    transport_.watches.clear();
    make();
    reach();
    seen_.clear();
    reflector_.reset();
    executor_.advance(kWatchSilenceMax * 2);
    for (const auto& held : transport_.lists) held.done(reply(200, list_json("9", "")));
    for (const auto& held : transport_.watches) held.events.on_end(reply(200));
    executor_.run_ready();
    EXPECT_THAT(seen_, IsEmpty());
    for (std::size_t i = 0; i < transport_.watches.size(); ++i) EXPECT_FALSE(open(i));
  }
}

// The reflector is destroyed by another thread while its handlers run.
TEST(ReflectorThreads, DestructionWaitsForTheHandlerThatIsRunning) {
  for (int i = 0; i < 50; ++i) {
    AsioExecutor executor;
    HeldTransport transport(executor);
    std::latch running(1);
    std::atomic<bool> done = false;
    std::optional<Reflector> reflector;
    const auto ignore = [](const std::string&) {};
    reflector.emplace("pods", Resource{"/pods", ""}, transport,
                      Consumer<std::string>{.read = read_name,
                                            .apply = ignore,
                                            .remove = ignore,
                                            .relist =
                                                [&](const std::vector<std::string>&, bool) {
                                                  running.count_down();
                                                  std::this_thread::yield();
                                                  done = true;
                                                }},
                      ReflectorEvents());
    reflector->start();
    executor.post([&] {
      ASSERT_THAT(transport.lists, SizeIs(1));
      transport.lists.front().done(reply(200, list_json("5", "")));
    });
    running.wait();
    (void)reflector->synced();
    (void)reflector->silent_for();
    reflector.reset();
    EXPECT_TRUE(done);
    executor.stop();
  }
}

}  // namespace
}  // namespace mgpu::kube
