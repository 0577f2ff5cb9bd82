// Requests over HTTP/2: what is served. http2_limits_test.cc has what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "test/common/http/http2_served.h"

namespace mgpu::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(ServerHttp2, IsOfferedBesideHttp11) {
  Served served(describe, options());
  EXPECT_EQ(served.connect(trusting("h2,http/1.1")).protocol(), "h2");
  EXPECT_EQ(served.connect(trusting("http/1.1,h2")).protocol(), "h2");
  EXPECT_EQ(served.connect(trusting("http/1.1")).protocol(), "http/1.1");
  EXPECT_EQ(served.connect(trusting("")).protocol(), "");
}

TEST_F(ServerHttp2, AnswersRequestsOnOneConnection) {
  Served served(describe, options());
  auto client = connect(served);
  for (int i = 0; i < 3; ++i) {
    const auto answer =
        client.exchange({.method = "POST", .path = "/filter?of=it", .body = "four"});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "POST /filter of=it 4");
    EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
    EXPECT_EQ(answer.headers.at("content-length"), "20");
  }
  EXPECT_THAT(served.refused.all(), IsEmpty());
  EXPECT_THAT(served.connections.all(), ElementsAre("1"));
}

TEST_F(ServerHttp2, AnswersInTheOrderOfTheResponses) {
  Held held;
  Served served(held.handler(), options());
  auto client = connect(served);
  const auto first = client.ask({.path = "/first"});
  const auto second = client.ask({.path = "/second"});
  held.next("/second")({.body = "second"});
  EXPECT_EQ(client.answer(second).body, "second");
  held.next("/first")({.body = "first"});
  EXPECT_EQ(client.answer(first).body, "first");
}

TEST_F(ServerHttp2, AHandlerThatTakesLongStopsNoOtherRequestOfItsConnection) {
  std::promise<void> second;
  auto responded = second.get_future();
  Served served(
      [&](const Request& request, const Respond& respond) {
        if (request.path == "/second") return respond({.body = "second"});
        respond({.status =
                     responded.wait_for(test::kRawWait) == std::future_status::ready ? 200 : 504});
      },
      options());
  auto client = connect(served);
  const auto first = client.ask({.path = "/first"});
  EXPECT_EQ(client.exchange({.path = "/second"}).body, "second");
  second.set_value();
  EXPECT_EQ(client.answer(first).status, 200);
}

TEST_F(ServerHttp2, TransfersLargeBodiesSideBySide) {
  Served served(echo, options());
  auto client = connect(served);
  const std::string body(std::size_t{1} << 20, 'x');
  std::vector<std::int32_t> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(client.ask({.method = "POST", .body = body}));
  for (const auto stream : streams) EXPECT_EQ(client.answer(stream).body, body);
}

TEST_F(ServerHttp2, PassesTheHeadersOfARequest) {
  Served served(
      [](const Request& request, const Respond& respond) {
        respond({.body = request.authorization + " " + request.if_none_match,
                 .headers = {{"ETag", "\"2\""}}});
      },
      options());
  const auto answer = connect(served).exchange(
      {.headers = {{"authorization", "Bearer abc"}, {"if-none-match", "\"1\""}}});
  EXPECT_EQ(answer.body, "Bearer abc \"1\"");
  EXPECT_EQ(answer.headers.at("etag"), "\"2\"");
}

TEST_F(ServerHttp2, HeadAndNotModifiedHaveNoBody) {
  Served served(
      [](const Request& request, const Respond& respond) {
        respond({.status = request.path == "/old" ? 304 : 200, .body = "body"});
      },
      options());
  auto client = connect(served);
  const auto head = client.exchange({.method = "HEAD"});
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(head.headers.at("content-length"), "4");
  const auto same = client.exchange({.path = "/old"});
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(client.exchange({}).body, "body");
}

TEST_F(ServerHttp2, TheBodyFollowsAContinue) {
  Served served(echo, options());
  auto client = connect(served);
  const auto stream =
      client.ask({.method = "POST", .headers = {{"expect", "100-Continue"}}, .whole = false});
  EXPECT_EQ(client.informational(stream), 100);
  client.finish(stream, "body");
  EXPECT_EQ(client.answer(stream).body, "body");
}

TEST_F(ServerHttp2, ADroppedRequestIs500) {
  Served served([](const Request&, const Respond&) {}, options());
  EXPECT_EQ(connect(served).exchange({}).status, 500);
}

TEST_F(ServerHttp2, SendsABodyInParts) {
  Parts parts;
  Served served(parts.handler(), options());
  auto client = connect(served);
  const auto stream = client.ask({});
  parts.give("one ");
  EXPECT_EQ(client.begin_of_answer(stream, 4).body, "one ");
  parts.give("two");
  EXPECT_EQ(client.begin_of_answer(stream, 7).body, "one two");
  parts.give("");
  const auto answer = client.answer(stream);
  EXPECT_EQ(answer.body, "one two");
  EXPECT_EQ(answer.error, 0U);
  EXPECT_FALSE(answer.headers.contains("content-length"));
}

TEST_F(ServerHttp2, APartIsAskedForWhenTheOneBeforeHasBeenSent) {
  Parts parts;
  Served served(parts.handler(), options());
  auto client = connect(served);
  const auto stream = client.ask({});
  parts.give(std::string(std::size_t{1} << 20, 'x'));
  EXPECT_FALSE(parts.is_asked_within(50ms)) << "the client has not read";
  client.begin_of_answer(stream, std::size_t{1} << 20);
  EXPECT_TRUE(parts.is_asked_within(test::kRawWait));
}

TEST_F(ServerHttp2, ABodyInPartsEndsWithItsClientOrStream) {
  Parts parts;
  Served served(parts.handler(), options());
  {
    auto client = connect(served);
    const auto stream = client.ask({});
    client.begin_of_answer(stream);
    client.reset(stream);
    EXPECT_TRUE(parts.is_destroyed());
    client.begin_of_answer(client.ask({}));
  }
  EXPECT_TRUE(parts.is_destroyed());
}

TEST_F(ServerHttp2, DrainingSendsPendingResponsesAndEnds) {
  Held held;
  Served served(held.handler(), options());
  auto client = connect(served);
  const auto stream = client.ask({.path = "/"});
  const Respond respond = held.next("/");
  served.server->drain();
  EXPECT_TRUE(client.receives_goaway());
  EXPECT_FALSE(served.server->wait_drained(1ms));
  respond({.body = "late"});
  EXPECT_EQ(client.answer(stream).body, "late");
  EXPECT_TRUE(client.ends());
  EXPECT_TRUE(served.server->wait_drained(test::kRawWait));
}

TEST_F(ServerHttp2, DrainingEndsIdleConnectionsAndBodiesInParts) {
  Parts parts;
  Served served(parts.handler(), options());
  auto idle = connect(served);
  auto client = connect(served);
  const auto stream = client.ask({});
  client.begin_of_answer(stream);
  served.server->drain();
  EXPECT_TRUE(client.answer(stream).ended);
  EXPECT_TRUE(client.ends());
  EXPECT_TRUE(idle.ends());
  EXPECT_TRUE(served.server->wait_drained(test::kRawWait));
}

TEST_F(ServerHttp2, TheLastResponseEndsTheConnectionAfterThosePending) {
  Held held;
  Served served(held.handler(), options());
  auto client = connect(served);
  const auto pending = client.ask({.path = "/pending"});
  const Respond respond = held.next("/pending");
  const auto last = client.ask({.path = "/last"});
  held.next("/last")({.status = 503, .body = "another replica", .last = true});
  EXPECT_TRUE(client.receives_goaway());
  EXPECT_EQ(client.answer(last).body, "another replica");
  respond({.body = "late"});
  EXPECT_EQ(client.answer(pending).body, "late");
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerHttp2, AResponseAfterTheClientHasGoneIsDropped) {
  Held held;
  Served served(held.handler(), options());
  Respond respond;
  {
    auto client = connect(served);
    client.ask({.path = "/"});
    respond = held.next("/");
  }
  ASSERT_TRUE(served.connections.wait_for("0"));
  respond({});  // AddressSanitizer checks that it finds no session that was destroyed
  auto client = connect(served);
  const auto stream = client.ask({.path = "/"});
  held.next("/")({.body = "on"});
  EXPECT_EQ(client.answer(stream).body, "on");
}

}  // namespace
}  // namespace mgpu::http
