// What a client of HTTP/2 may not do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/common/http/http2_served.h"

namespace mgpu::http {
namespace {

using test::Http2Ask;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint32_t kRefusedStream = 7;  // RFC 9113, section 7

class Http2Limits : public ServerHttp2 {
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
};

TEST_F(Http2Limits, ABodyOverTheLimitIs413AndOthersGoOn) {
  Served served(echo, small());
  auto client = connect(served);
  EXPECT_EQ(client.exchange({.method = "POST", .body = std::string(1000, 'x')}).status, 200);
  const auto answer = client.exchange({.method = "POST", .body = std::string(1001, 'x')});
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("the body is over 1000 bytes"));
  EXPECT_EQ(client.exchange({.method = "POST", .body = "next"}).body, "next");
  EXPECT_THAT(served.refused.all(), ElementsAre("body_too_large"));
}

TEST_F(Http2Limits, AnAnnouncedBodyOverTheLimitIs413BeforeItIsSent) {
  Served served(echo, small());
  const Http2Ask ask{.method = "POST", .headers = {{"content-length", "1001"}}, .whole = false};
  const auto answer = connect(served).exchange(ask);
  EXPECT_EQ(answer.status, 413);
  EXPECT_TRUE(answer.ended);
}

TEST_F(Http2Limits, BodiesOfOneConnectionCountTogetherUntilTheyAreWhole) {
  Served served(echo, small());
  auto client = connect(served);
  const auto first = client.ask({.method = "POST", .body = std::string(600, 'x'), .whole = false});
  const auto answer = client.exchange({.method = "POST", .body = std::string(600, 'x')});
  EXPECT_EQ(answer.status, 413);
  client.reset(first);
  EXPECT_EQ(client.exchange({.method = "POST", .body = std::string(600, 'x')}).status, 200);
}

TEST_F(Http2Limits, AHeaderOverTheLimitIs431) {
  Served served(echo, small());
  auto client = connect(served);
  const auto answer = client.exchange({.headers = {{"x", std::string(2000, 'x')}}});
  EXPECT_EQ(answer.status, 431);
  EXPECT_EQ(client.exchange({}).status, 200);
  EXPECT_THAT(served.refused.all(), ElementsAre("header_too_large"));
}

TEST_F(Http2Limits, RequestsOverTheNumberOfStreamsAreRefused) {
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

TEST_F(Http2Limits, AClientWithoutAnAllowedNameGets403AndNoMore) {
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
  EXPECT_TRUE(client.is_told_to_leave());
  EXPECT_TRUE(client.ends());
}

TEST_F(Http2Limits, OnALoopbackAddressTheHostMustBeLocal) {
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

TEST_F(Http2Limits, AnOldConnectionIsToldToLeave) {
  ServerOptions young = options();
  young.connection_age_max = 20ms;
  Served served(echo, young);
  auto client = connect(served);
  EXPECT_TRUE(client.is_told_to_leave());
  EXPECT_TRUE(client.ends());
}

TEST_F(Http2Limits, PingsKeepNoIdleConnection) {
  Served served(echo, quick());
  auto client = connect(served);
  while (!client.raw().is_closed()) {
    client.ping();
    client.raw().read_some();
  }
  EXPECT_THAT(served.refused.all(), IsEmpty());
}

TEST_F(Http2Limits, ARequestThatDoesNotEndIsSlow) {
  Served served(echo, quick());
  auto client = connect(served);
  client.ask({.method = "POST", .body = "begin", .whole = false});
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), ElementsAre("slow_client"));
}

TEST_F(Http2Limits, AHandlerMayTakeLongerThanATransfer) {
  Held held;
  Served served(held.handler(), quick());
  auto client = connect(served);
  const auto stream = client.ask({.path = "/"});
  const Respond respond = held.next("/");
  std::this_thread::sleep_for(500ms);
  respond({.body = "late"});
  EXPECT_EQ(client.answer(stream).body, "late");
}

TEST_F(Http2Limits, AClientThatDoesNotReadIsSlow) {
  Served served(echo, quick());
  auto client = connect(served);
  client.ask({.method = "POST", .body = std::string(60'000, 'x')});
  client.ask({.method = "POST", .body = std::string(60'000, 'x')});
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
}

TEST_F(Http2Limits, ResponsesThatAreNotReadHaveALimit) {
  const std::string large(std::size_t{1} << 20, 'x');
  Served served([&](const Request&, const Respond& respond) { respond({.body = large}); },
                options());
  auto client = connect(served);
  for (std::size_t i = 0; i < kHttp2UnsentBytesMax / large.size() + 2; ++i) client.ask({});
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
  EXPECT_TRUE(served.connections.wait_for("0"));
}

TEST_F(Http2Limits, BytesOfAnotherProtocolEndTheConnection) {
  Served served(echo, options());
  auto raw = served.connect(trusting("h2"));
  raw.send(test::post_text("/", std::string(1000, 'x')));
  raw.read_to_end();
  EXPECT_TRUE(raw.is_closed());
  EXPECT_THAT(served.refused.all(), Contains("malformed"));
}

TEST_F(Http2Limits, AFrameThatBreaksTheProtocolEndsTheConnectionAndItsRequests) {
  Held held;
  Served served(held.handler(), options());
  auto client = connect(served);
  client.ask({.path = "/"});
  const Respond respond = held.next("/");
  // A HEADERS frame of a stream with an even number, which only servers open.
  client.raw().send(std::string_view("\0\0\1\1\4\0\0\0\2\x82", 10));
  EXPECT_TRUE(client.is_told_to_leave());
  EXPECT_TRUE(client.ends());
  EXPECT_TRUE(served.connections.wait_for("0"));
}

// Each reset lets the client open another stream (CVE-2023-44487).
TEST_F(Http2Limits, AClientThatResetsManyStreamsIsClosed) {
  Served served([](const Request&, const Respond& respond) { respond({}); }, options());
  auto client = connect(served);
  for (int i = 0; i < 3'000 && !client.raw().is_closed(); ++i) client.reset(client.ask({}));
  EXPECT_TRUE(client.ends());
}

TEST_F(Http2Limits, HeadersWithoutAnEndAreNotKept) {
  Served served(echo, options());
  auto client = connect(served);
  client.exchange({});
  // HEADERS without END_HEADERS, then CONTINUATION frames without it (CVE-2024-28182).
  client.raw().send(std::string_view("\0\0\1\1\0\0\0\0\x05\x82", 10));
  for (int i = 0; i < 1'000; ++i) {
    if (!client.raw().send(std::string_view("\0\0\1\x9\0\0\0\0\x05\x84", 10))) break;
  }
  EXPECT_TRUE(client.ends());
}

}  // namespace
}  // namespace mgpu::http
