// What a client of HTTP/2 may not do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/common/http/http2_served.h"

namespace mgpu::http {
namespace {

using test::Http2Ask;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// RFC 9113, section 7.
constexpr std::uint32_t kProtocolError = 1;
constexpr std::uint32_t kRefusedStream = 7;

class ServerHttp2Limits : public ServerHttp2 {
 protected:
  ServerOptions small() const {
    ServerOptions out = options();
    out.header_bytes_max = 1024;
    out.body_bytes_max = 1000;
    return out;
  }
  ServerOptions quick() const {
    ServerOptions out = options();
    out.idle_timeout = 100ms;
    out.transfer_timeout = 200ms;
    return out;
  }
  // No timeout ends a connection within a test.
  ServerOptions patient() const {
    ServerOptions out = options();
    out.idle_timeout = out.transfer_timeout = out.connection_age_max = 1h;
    return out;
  }
};

TEST_F(ServerHttp2Limits, ABodyOverTheLimitIs413AndOthersGoOn) {
  Served served(echo, small());
  auto client = connect(served);
  EXPECT_EQ(client.exchange({.method = "POST", .body = std::string(1000, 'x')}).status, 200);
  const auto answer = client.exchange({.method = "POST", .body = std::string(1001, 'x')});
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("the body is over 1000 bytes"));
  EXPECT_EQ(client.exchange({.method = "POST", .body = "next"}).body, "next");
  EXPECT_THAT(served.refused.all(), ElementsAre("body_too_large"));
}

TEST_F(ServerHttp2Limits, AnAnnouncedBodyOverTheLimitIs413BeforeItIsSent) {
  Served served(echo, small());
  const Http2Ask ask{.method = "POST", .headers = {{"content-length", "1001"}}, .whole = false};
  const auto answer = connect(served).exchange(ask);
  EXPECT_EQ(answer.status, 413);
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(answer.error, 0U) << "NO_ERROR (RFC 9113, 8.1)";
}

TEST_F(ServerHttp2Limits, BodiesThatAreBeingReceivedCountTogether) {
  Served served(echo, small());
  auto client = connect(served);
  const Http2Ask begun{.method = "POST", .body = std::string(900, 'x'), .whole = false};
  const auto first = client.ask(begun);
  client.ask(begun);
  const Http2Ask small_bind{.method = "POST", .body = std::string(300, 'x')};
  const auto answer = client.exchange(small_bind);
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("is sending have more than 2000 bytes together"));
  client.reset(first);
  EXPECT_EQ(client.exchange(small_bind).status, 200);
  EXPECT_THAT(served.refused.all(), ElementsAre("bodies_too_large"));
}

TEST_F(ServerHttp2Limits, AWholeBodyCountsNoMore) {
  Held held;
  Served served(held.handler(), small());
  auto client = connect(served);
  for (const char* path : {"/1", "/2", "/3"}) {
    client.ask({.method = "POST", .path = path, .body = std::string(900, 'x')});
  }
  for (const char* path : {"/1", "/2", "/3"}) held.next(path)({});
}

TEST_F(ServerHttp2Limits, AHeaderOverTheLimitIs431) {
  Served served(echo, small());
  auto client = connect(served);
  const auto answer = client.exchange({.headers = {{"x", std::string(2000, 'x')}}});
  EXPECT_EQ(answer.status, 431);
  EXPECT_EQ(client.exchange({}).status, 200);
  EXPECT_THAT(served.refused.all(), ElementsAre("header_too_large"));
}

TEST_F(ServerHttp2Limits, RequestsOverTheNumberOfStreamsAreRefusedUntilTheClientKnowsIt) {
  Held held;
  Served served(held.handler(), options());
  auto client = connect(served);
  std::vector<std::int32_t> streams;
  for (std::uint32_t i = 0; i <= kHttp2StreamsMax; ++i) {
    streams.push_back(client.ask({.path = "/" + std::to_string(i)}));
  }
  const auto refused = client.answer(streams.back());
  EXPECT_EQ(refused.error, kRefusedStream);
  held.next("/5")({.body = "5"});
  EXPECT_EQ(client.answer(streams[5]).body, "5");
}

TEST_F(ServerHttp2Limits, AClientWithoutAnAllowedNameGets403AndNoMore) {
  ServerOptions named = options();
  named.tls.client_ca_file = ca.certificate;
  named.tls.client_names = {"kube-scheduler"};
  Served served(echo, named);
  test::RawTls tls = trusting("h2");
  const auto other = certificates.issue("other", ca);
  tls.certificate_file = other.certificate;
  tls.key_file = other.key;
  test::Http2Client client(served.connect(tls));
  EXPECT_EQ(client.exchange({}).status, 403);
  EXPECT_TRUE(client.receives_goaway());
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerHttp2Limits, OnALoopbackAddressTheHostMustBeLocal) {
  Served served(describe, options());
  const auto status_of = [&](const Http2Ask& ask) { return connect(served).exchange(ask).status; };
  EXPECT_EQ(status_of({.authority = "127.0.0.1:80"}), 200);
  EXPECT_EQ(status_of({.headers = {{"host", "localhost"}}, .authority = ""}), 200);
  EXPECT_EQ(status_of({.headers = {{"host", "localhost"}}, .authority = "localhost"}), 200);
  EXPECT_EQ(status_of({.authority = "evil.test"}), 421);
  EXPECT_EQ(status_of({.headers = {{"host", "evil.test"}}, .authority = "localhost"}), 421);
  EXPECT_EQ(status_of({.headers = {{"origin", "https://evil.test"}}}), 403);
  EXPECT_EQ(status_of({.headers = {{"sec-fetch-site", "cross-site"}}}), 403);
}

TEST_F(ServerHttp2Limits, AnOldConnectionIsToldToLeave) {
  ServerOptions young = options();
  young.connection_age_max = 20ms;
  Served served(echo, young);
  auto client = connect(served);
  EXPECT_TRUE(client.receives_goaway());
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerHttp2Limits, PingsKeepNoIdleConnection) {
  Served served(echo, quick());
  auto client = connect(served);
  const auto end = std::chrono::steady_clock::now() + test::kRawWait;
  while (!client.raw().is_closed() && std::chrono::steady_clock::now() < end) {
    client.ping();
    client.raw().read_some();
  }
  EXPECT_TRUE(client.raw().is_closed());
  EXPECT_THAT(served.refused.all(), IsEmpty());
}

TEST_F(ServerHttp2Limits, ARequestThatDoesNotEndIsSlow) {
  Served served(echo, quick());
  auto client = connect(served);
  client.ask({.method = "POST", .body = "begin", .whole = false});
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), ElementsAre("slow_client"));
}

TEST_F(ServerHttp2Limits, AHandlerMayTakeLongerThanATransfer) {
  Held held;
  Served served(held.handler(), quick());
  auto client = connect(served);
  const auto stream = client.ask({.path = "/"});
  const Respond respond = held.next("/");
  std::this_thread::sleep_for(500ms);
  respond({.body = "late"});
  EXPECT_EQ(client.answer(stream).body, "late");
}

TEST_F(ServerHttp2Limits, AClientThatDoesNotReadIsSlow) {
  Served served(echo, quick());
  auto client = connect(served);
  client.ask({.method = "POST", .body = std::string(60'000, 'x')});
  client.ask({.method = "POST", .body = std::string(60'000, 'x')});
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
}

TEST_F(ServerHttp2Limits, ResponsesThatAreNotReadHaveALimit) {
  const std::string large(std::size_t{1} << 20, 'x');
  Served served([&](const Request&, const Respond& respond) { respond({.body = large}); },
                patient());
  auto client = connect(served);
  for (std::size_t i = 0; i < kHttp2UnsentBytesMax / large.size() + 2; ++i) client.ask({});
  EXPECT_TRUE(served.refused.wait_for("too_many_unsent_bytes"));
  EXPECT_TRUE(served.connections.wait_for("0"));
}

TEST_F(ServerHttp2Limits, BytesOfAnotherProtocolEndTheConnection) {
  Served served(echo, options());
  auto raw = served.connect(trusting("h2"));
  raw.send(test::post_text("/", std::string(1000, 'x')));
  raw.read_to_end();
  EXPECT_TRUE(raw.is_closed());
  EXPECT_THAT(served.refused.all(), Contains("malformed"));
}

TEST_F(ServerHttp2Limits, AFrameThatBreaksTheProtocolEndsTheConnectionAndItsRequests) {
  Held held;
  Served served(held.handler(), options());
  auto client = connect(served);
  client.ask({.path = "/"});
  const Respond respond = held.next("/");
  // A HEADERS frame of a stream with an even number, which only servers open.
  client.raw().send(std::string_view("\0\0\1\1\4\0\0\0\2\x82", 10));
  EXPECT_TRUE(client.receives_goaway());
  EXPECT_TRUE(client.ends());
  EXPECT_TRUE(served.connections.wait_for("0"));
  EXPECT_THAT(served.refused.all(), ElementsAre("malformed"));
}

TEST_F(ServerHttp2Limits, AMalformedRequestIsResetAndOthersGoOn) {
  Served served(describe, options());
  auto client = connect(served);
  // RFC 9113, 8.2.2.
  EXPECT_EQ(client.exchange({.headers = {{"connection", "close"}}}).error, kProtocolError);
  EXPECT_EQ(client.exchange({}).status, 200);
  EXPECT_THAT(served.refused.all(), ElementsAre("malformed"));
}

// Each gets a frame in response, which the limits of nghttp2 do not count.
TEST_F(ServerHttp2Limits, AClientThatSendsManyMalformedRequestsIsClosed) {
  Served served(describe, patient());
  auto client = connect(served);
  for (std::size_t i = 0; i <= kHttp2MalformedMax; ++i) {
    client.ask({.headers = {{"connection", "close"}}});
  }
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerHttp2Limits, AClientThatDoesNotReadItsPingsIsClosed) {
  Served served(describe, patient());
  auto client = connect(served);
  // nghttp2's own client reads nothing meanwhile. The answers fill the buffers of both sockets.
  std::string pings;
  for (int i = 0; i < 1'000; ++i) pings += std::string("\0\0\x8\6\0\0\0\0\0", 9) + "12345678";
  bool open = true;
  for (int i = 0; i < 3'000 && open; ++i) open = client.raw().send(pings);
  EXPECT_FALSE(open);
  EXPECT_TRUE(served.refused.wait_for("malformed"));
}

TEST_F(ServerHttp2Limits, AClientThatStaysAfterItWasToldToLeaveIsClosed) {
  Served served(describe, quick());
  auto client = connect(served);
  client.exchange({});
  served.server->drain();
  EXPECT_TRUE(served.server->wait_drained(test::kRawWait)) << "the client does not read";
}

// A client that another one must be able to take the place of, see admission.h.
TEST_F(ServerHttp2Limits, OnlyAHandledRequestKeepsAConnectionFromBeingClosedForAnother) {
  ServerOptions one = patient();
  one.connections_max = 1;
  Held held;
  Served served(held.handler(), one);
  auto first = connect(served);
  first.ask({.method = "POST", .path = "/", .body = "begin", .whole = false});
  first.ping();
  first.raw().read_some();
  auto second = connect(served);
  EXPECT_TRUE(served.refused.wait_for("closed_for_another"));
  EXPECT_TRUE(first.ends());
  second.ask({.path = "/second"});
  const Respond respond = held.next("/second");
  EXPECT_FALSE(served.connect(trusting("h2")).connected());
  EXPECT_TRUE(served.refused.wait_for("too_many_connections"));
}

// Each reset lets the client open another stream (CVE-2023-44487).
TEST_F(ServerHttp2Limits, AClientThatResetsManyStreamsIsClosed) {
  Served served([](const Request&, const Respond& respond) { respond({}); }, options());
  auto client = connect(served);
  for (int i = 0; i < 3'000; ++i) client.reset(client.ask({}));
  EXPECT_TRUE(client.ends());
}

TEST_F(ServerHttp2Limits, AHeaderOfTooManyContinuationsEndsTheConnection) {
  Served served(echo, patient());
  auto client = connect(served);
  client.exchange({});
  // HEADERS without END_HEADERS, then CONTINUATION frames without it (CVE-2024-28182).
  client.raw().send(std::string_view("\0\0\1\1\0\0\0\0\x05\x82", 10));
  for (int i = 0; i < 1'000; ++i) {
    if (!client.raw().send(std::string_view("\0\0\1\x9\0\0\0\0\x05\x84", 10))) break;
  }
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), Contains("malformed"));
}

}  // namespace
}  // namespace mgpu::http
