#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "test/common/http/served.h"
#include "test/support/raw_http.h"

namespace mgpu::http {
namespace {

using namespace std::chrono_literals;
using test::get_text;
using test::post_text;

// A handler whose responses are sent by the test.
class Waiting {
 public:
  Handler handler() {
    return [this](const Request&, Respond respond) { arrived_.set_value(std::move(respond)); };
  }
  // REQUIRES: called once.
  Respond next() {
    auto future = arrived_.get_future();
    EXPECT_EQ(future.wait_for(test::kRawWait), std::future_status::ready);
    return future.get();
  }

 private:
  std::promise<Respond> arrived_;
};

TEST(Drain, ClosesIdleConnectionsAtOnce) {
  Served served(echo);
  auto fresh = served.connect();
  auto used = served.connect();
  used.send(post_text("/", "x"));
  EXPECT_EQ(used.read_response().status, 200);
  ASSERT_TRUE(served.connections.wait_for("2"));
  served.server->drain();
  EXPECT_TRUE(fresh.ends());
  EXPECT_TRUE(used.ends());
  EXPECT_TRUE(served.server->wait_drained(test::kRawWait));
}

TEST(Drain, AcceptsNoNewConnections) {
  Served served(echo);
  served.server->drain();
  ASSERT_TRUE(served.server->wait_drained(test::kRawWait));
  EXPECT_FALSE(served.connect().connected());
}

TEST(Drain, SendsAPendingResponseAndCloses) {
  Waiting waiting;
  Served served(waiting.handler());
  auto client = served.connect();
  client.send(get_text("/"));
  const Respond respond = waiting.next();
  served.server->drain();
  EXPECT_FALSE(served.server->wait_drained(1ms));
  respond({.body = "finished"});
  const auto answer = client.read_response();
  EXPECT_EQ(answer.body, "finished");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
}

TEST(Drain, HandlesARequestThatHasPartlyArrived) {
  Served served(echo);
  auto client = served.connect();
  client.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  ASSERT_EQ(client.read_response(false).status, 100);
  served.server->drain();
  client.send("body");
  EXPECT_EQ(client.read_response().body, "body");
  EXPECT_TRUE(client.ends());
}

TEST(Drain, IsIdempotent) {
  Served served(echo);
  for (int i = 0; i < 3; ++i) served.server->drain();
  EXPECT_TRUE(served.server->wait_drained(test::kRawWait));
  EXPECT_TRUE(served.server->wait_drained(0ms));
}

TEST(Drain, WaitDrainedIsFalseBeforeDrain) {
  Served served(echo);
  EXPECT_FALSE(served.server->wait_drained(0ms));
}

TEST(Drain, IsLimitedByTheTimeoutOfTheDestructor) {
  Waiting waiting;
  ServerOptions options;
  options.drain_timeout = 20ms;
  Served served(waiting.handler(), options);
  auto client = served.connect();
  client.send(get_text("/"));
  const Respond respond = waiting.next();
  served.server.reset();
  EXPECT_EQ(client.read_to_end(), "");
  respond({.body = "too late"});
}

TEST(Drain, OfAnUnusedServerEndsAtOnce) {
  Served served(echo);
  served.server.reset();
}

}  // namespace
}  // namespace mgpu::http
