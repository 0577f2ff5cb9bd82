#include "common/kube/curl/curl_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>

#include "common/kube/limits.h"
#include "test/support/api_calls.h"
#include "test/support/curl_world.h"
#include "test/support/scripted_server.h"

namespace mgpu::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::answer_text;
using test::call_and_wait;
using test::config_for;
using test::CurlWorld;
using test::get_of;
using test::header_of;
using test::Peer;
using test::ScriptedServer;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Answers every request of every connection with the result of `answer`.
ScriptedServer::Script always(std::function<std::string(const std::string&)> answer) {
  return [answer = std::move(answer)](Peer& peer) {
    for (std::string request = peer.read_request(); !request.empty();
         request = peer.read_request()) {
      if (!peer.send(answer(request))) return;
    }
  };
}

std::string echo(const std::string& request) {
  return answer_text(200, request);
}

TEST(CurlTransport, SendsMethodTargetHeadersAndBody) {
  const ScriptedServer server(always(echo));
  CurlWorld world(config_for(server.port()));
  struct Case {
    Method method;
    std::string name;
    std::string body;
  };
  for (const Case& each : {Case{Method::kGet, "GET", ""},
                           {Method::kPost, "POST", "{\"a\":1}"},
                           {Method::kPost, "POST", ""},
                           {Method::kPut, "PUT", "x"},
                           {Method::kPatch, "PATCH", "[]"},
                           {Method::kDelete, "DELETE", ""}}) {
    Request request;
    request.method = each.method;
    request.target = "/a/%2E%2E/../b?c=%20";
    request.body = each.body;
    request.content_type = each.body.empty() ? "" : "application/json";
    const Response response = call_and_wait(world.transport(), request);
    ASSERT_EQ(response.status, 200) << (response.failure ? response.failure->message : "");
    EXPECT_THAT(response.body, StartsWith(each.name + " /a/%2E%2E/../b?c=%20 HTTP/1.1\r\n"));
    EXPECT_EQ(header_of(response.body, "content-type"), request.content_type);
    EXPECT_EQ(header_of(response.body, "accept"), "application/json");
    EXPECT_EQ(header_of(response.body, "expect"), "");
    EXPECT_EQ(header_of(response.body, "authorization"), "");
    EXPECT_THAT(header_of(response.body, "user-agent"), StartsWith("mgpu/"));
    EXPECT_EQ(response.body.substr(response.body.find("\r\n\r\n") + 4), each.body);
  }
}

TEST(CurlTransport, SendsALargeBodyWithoutExpectContinue) {
  const ScriptedServer server(always(
      [](const std::string& request) { return answer_text(200, header_of(request, "expect")); }));
  CurlWorld world(config_for(server.port()));
  Request request;
  request.method = Method::kPost;
  request.target = "/";
  request.body.assign(3 << 20, 'x');
  const Response response = call_and_wait(world.transport(), request);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "");
}

TEST(CurlTransport, HonoursTheServersBasePath) {
  const ScriptedServer server(always(echo));
  Config config = config_for(server.port());
  config.server += "/base/";
  CurlWorld world(config);
  EXPECT_THAT(call_and_wait(world.transport(), get_of("/api")).body, StartsWith("GET /base/api "));
}

TEST(CurlTransport, ReturnsEveryStatusWithItsBody) {
  const ScriptedServer server(always([](const std::string& request) {
    const int status = std::stoi(request.substr(request.find('/') + 1));
    return answer_text(status, "body", "Location: /201\r\n");
  }));
  CurlWorld world(config_for(server.port()));
  for (const int status : {201, 301, 307, 400, 401, 404, 409, 410, 429, 500, 503}) {
    const Response response =
        call_and_wait(world.transport(), get_of("/" + std::to_string(status)));
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.body, "body");
    EXPECT_FALSE(response.failure);
    EXPECT_FALSE(response.retry_after);
  }
}

TEST(CurlTransport, ReadsRetryAfter) {
  const ScriptedServer server(always([](const std::string& request) {
    const std::size_t begin = request.find('/') + 1;
    const std::string value = request.substr(begin, request.find(' ', begin) - begin);
    return answer_text(429, "", "Retry-After: " + value + "\r\n");
  }));
  CurlWorld world(config_for(server.port()));
  const auto retry_after = [&](const std::string& value) {
    return call_and_wait(world.transport(), get_of("/" + value)).retry_after;
  };
  EXPECT_EQ(retry_after("7"), Duration(seconds(7)));
  EXPECT_EQ(retry_after("0"), std::nullopt);
  EXPECT_EQ(retry_after("soon"), std::nullopt);
  EXPECT_EQ(retry_after("-5"), std::nullopt);
  EXPECT_GE(retry_after("9223372036854775807").value_or(seconds(1)), Duration(seconds(1)));
}

TEST(CurlTransport, ReadsTheClockOfTheServer) {
  const ScriptedServer server(always([](const std::string& request) {
    const std::string headers[] = {"Date: Thu, 01 Jan 1970 00:01:40 GMT\r\n", "Date: soon\r\n", ""};
    return answer_text(200, "", headers[request.at(request.find('/') + 1) - '0']);
  }));
  CurlWorld world(config_for(server.port()));
  const auto date = [&](const std::string& path) {
    return call_and_wait(world.transport(), get_of(path)).date;
  };
  EXPECT_EQ(date("/0"), std::chrono::sys_seconds(seconds(100)));
  EXPECT_EQ(date("/1"), std::nullopt);
  EXPECT_EQ(date("/2"), std::nullopt);
}

TEST(CurlTransport, KeepsConnectionsOpen) {
  std::atomic<int> connections = 0;
  const ScriptedServer server([&](Peer& peer) {
    ++connections;
    always(echo)(peer);
  });
  CurlWorld world(config_for(server.port()));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 200);
  }
  EXPECT_EQ(connections, 1);
}

TEST(CurlTransport, RunsManyRequestsAtOnceAndTheRestInTurn) {
  constexpr int kRequests = 400;
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  const ScriptedServer server(always([&](const std::string& request) {
    const int now = ++at_once;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
    std::this_thread::sleep_for(milliseconds(5));
    --at_once;
    return echo(request);
  }));
  CurlWorld world(config_for(server.port()));
  std::latch answered(kRequests);
  std::atomic<int> good = 0;
  for (int i = 0; i < kRequests; ++i) {
    world.transport().send(get_of("/" + std::to_string(i)), [&, i](const Response& response) {
      good += response.body.starts_with("GET /" + std::to_string(i) + " ") ? 1 : 0;
      answered.count_down();
    });
  }
  answered.wait();
  EXPECT_EQ(good, kRequests);
  EXPECT_LE(most, static_cast<int>(kApiConnectionsMax));
  EXPECT_GT(most, 1);
}

TEST(CurlTransport, RefusesMoreRequestsThanItCanHold) {
  const ScriptedServer server([](Peer& peer) { peer.wait_for_end(); });
  CurlWorld world(config_for(server.port()));
  std::atomic<int> answered = 0;
  for (std::size_t i = 0; i < kApiRequestsInFlightMax; ++i) {
    world.transport().send(get_of("/"), [&](const Response&) { ++answered; });
  }
  const Response response = call_and_wait(world.transport(), get_of("/"));
  ASSERT_TRUE(response.failure);
  EXPECT_FALSE(response.failure->sent);
  EXPECT_THAT(response.failure->message, HasSubstr("1024"));
  world.destroy_transport();
  EXPECT_EQ(answered, 0);
}

TEST(CurlTransport, TimesOutARequestThatIsStillWaiting) {
  const ScriptedServer server([](Peer& peer) { peer.wait_for_end(); });
  CurlWorld world(config_for(server.port()));
  for (std::size_t i = 0; i < kApiConnectionsMax; ++i) {
    world.transport().send(get_of("/"), [](const Response&) {});
  }
  Request request = get_of("/");
  request.timeout = milliseconds(20);
  const Response response = call_and_wait(world.transport(), request);
  ASSERT_TRUE(response.failure);
  EXPECT_FALSE(response.failure->sent);
  world.destroy_transport();
}

TEST(CurlTransport, ReportsNothingSentWhereTheConnectionIsRefused) {
  std::uint16_t closed_port = 0;
  {
    const ScriptedServer server([](Peer&) {});
    closed_port = server.port();
  }
  CurlWorld world(config_for(closed_port));
  const Response response = call_and_wait(world.transport(), get_of("/"));
  ASSERT_TRUE(response.failure);
  EXPECT_EQ(response.status, 0);
  EXPECT_FALSE(response.failure->sent);
  EXPECT_THAT(response.failure->message, HasSubstr("connect"));
}

// The server listens on 127.0.0.1 only; ::1 is tried first where the machine has it.
TEST(CurlTransport, TriesEveryAddressOfAName) {
  const ScriptedServer server(always(echo));
  Config config;
  config.server = "http://localhost:" + std::to_string(server.port());
  for (int i = 0; i < 20; ++i) {
    CurlWorld world(config);
    EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 200);
  }
}

TEST(CurlTransport, ReportsNothingSentWhereTheNameDoesNotResolve) {
  Config config;
  config.server = "http://no-such-host.invalid:80";
  CurlWorld world(config);
  const Response response = call_and_wait(world.transport(), get_of("/"));
  ASSERT_TRUE(response.failure);
  EXPECT_FALSE(response.failure->sent);
}

TEST(CurlTransport, ReportsSentWhereTheAnswerIsLost) {
  const std::function<void(Peer&)> losses[] = {
      [](Peer& peer) { peer.read_request(); },
      [](Peer& peer) {
        peer.read_request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
      },
      [](Peer& peer) {
        peer.read_request();
        peer.send(test::chunked_head() + "20\r\nhalf");
      },
      [](Peer& peer) {
        peer.read_request();
        peer.send("garbage\r\n\r\n");
      },
  };
  for (const auto& loss : losses) {
    const ScriptedServer server(loss);
    CurlWorld world(config_for(server.port()));
    Request request = get_of("/");
    request.method = Method::kPost;
    const Response response = call_and_wait(world.transport(), request);
    ASSERT_TRUE(response.failure);
    EXPECT_TRUE(response.failure->sent);
    EXPECT_FALSE(response.failure->message.empty());
  }
}

TEST(CurlTransport, ReportsSentWhereTheAnswerIsTooLate) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.wait_for_end();
  });
  CurlWorld world(config_for(server.port()));
  Request request = get_of("/");
  request.timeout = milliseconds(1'000);
  const Response response = call_and_wait(world.transport(), request);
  ASSERT_TRUE(response.failure);
  EXPECT_TRUE(response.failure->sent);
  EXPECT_THAT(response.failure->message, HasSubstr("timed out"));
}

TEST(CurlTransport, OpensANewConnectionWhereAKeptOneWasClosed) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send(answer_text(200, std::to_string(peer.number())));
  });
  CurlWorld world(config_for(server.port()));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).body, std::to_string(i));
  }
}

TEST(CurlTransport, DecompressesAnswers) {
  // printf 'hello' | gzip -n
  constexpr unsigned char kGzip[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                     0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x86,
                                     0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};
  const std::string packed(reinterpret_cast<const char*>(kGzip), sizeof kGzip);
  const ScriptedServer server(always([&](const std::string& request) {
    if (header_of(request, "accept-encoding") != "gzip") return answer_text(500, "");
    return answer_text(200, packed, "Content-Encoding: gzip\r\n");
  }));
  CurlWorld world(config_for(server.port()));
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).body, "hello");
}

TEST(CurlTransport, EndsAnAnswerThatIsTooLarge) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send("HTTP/1.1 200 OK\r\n\r\n");
    const std::string part(1 << 20, 'x');
    while (peer.send(part)) continue;
  });
  CurlWorld world(config_for(server.port()));
  const Response response = call_and_wait(world.transport(), get_of("/"));
  ASSERT_TRUE(response.failure);
  EXPECT_TRUE(response.failure->sent);
  EXPECT_THAT(response.failure->message, HasSubstr("20971520 bytes"));
  EXPECT_TRUE(response.failure->too_large);
}

TEST(CurlTransport, AllowsAHandlerToSendAndToDestroyTheTransport) {
  const ScriptedServer server(always(echo));
  AsioExecutor executor;
  auto transport = CurlTransport::create(config_for(server.port()), executor).value();
  std::latch gone(1);
  transport->send(get_of("/1"), [&](const Response&) {
    transport->send(get_of("/2"), [&](const Response&) {
      transport->send(get_of("/3"), [](const Response&) { FAIL() << "answered after the end"; });
      transport.reset();
      gone.count_down();
    });
  });
  gone.wait();
  executor.stop();
}

TEST(CurlTransport, DropsRequestsInFlightWhenItIsDestroyed) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.wait_for_end();
  });
  for (const bool on_executor : {true, false}) {
    CurlWorld world(config_for(server.port()));
    for (int i = 0; i < 3; ++i) {
      world.transport().send(get_of("/"), [](const Response&) { FAIL() << "answered"; });
    }
    if (on_executor) world.destroy_transport();
  }
}

class CurlTokenTest : public ::testing::Test {
 public:
  CurlTokenTest()
      : file_(std::filesystem::path(::testing::TempDir()) /
              ("token-" + std::to_string(::getpid()))) {
    write("first\n");
  }
  ~CurlTokenTest() override { std::filesystem::remove(file_); }

  void write(std::string_view token) { std::ofstream(file_) << token; }
  Config config(const ScriptedServer& server) const {
    Config config = config_for(server.port());
    config.token_file = file_;
    return config;
  }

  const std::filesystem::path file_;
};

TEST_F(CurlTokenTest, SendsTheTokenAndNotItsLineEnd) {
  const ScriptedServer server(always(echo));
  CurlWorld world(config(server));
  const Response response = call_and_wait(world.transport(), get_of("/"));
  EXPECT_EQ(header_of(response.body, "authorization"), "Bearer first");
}

TEST_F(CurlTokenTest, ReadsTheFileAgainOnA401AndRetriesOnce) {
  const ScriptedServer server(always([](const std::string& request) {
    const bool known = header_of(request, "authorization") == "Bearer second";
    return answer_text(known ? 200 : 401, "");
  }));
  CurlWorld world(config(server));
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 401);
  write("second");
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 200);
}

TEST_F(CurlTokenTest, DoesNotRetryWithTheSameToken) {
  std::atomic<int> requests = 0;
  const ScriptedServer server(always([&](const std::string&) {
    ++requests;
    return answer_text(401, "");
  }));
  CurlWorld world(config(server));
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 401);
  EXPECT_EQ(requests, 1);
}

TEST_F(CurlTokenTest, KeepsTheLastTokenWhereTheFileIsGone) {
  const ScriptedServer server(always([](const std::string&) { return answer_text(401, ""); }));
  CurlWorld world(config(server));
  std::filesystem::remove(file_);
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 401);
  EXPECT_EQ(call_and_wait(world.transport(), get_of("/")).status, 401);
}

TEST(CurlTransport, SendsBasicAuthentication) {
  const ScriptedServer server(always(echo));
  Config config = config_for(server.port());
  config.username = "user";
  config.password = "pass:word";
  CurlWorld world(config);
  EXPECT_EQ(header_of(call_and_wait(world.transport(), get_of("/")).body, "authorization"),
            "Basic dXNlcjpwYXNzOndvcmQ=");
}

TEST(CurlTransport, NamesTheInvalidPartOfItsConfiguration) {
  struct Case {
    std::string name;
    std::function<void(Config&)> spoil;
    std::string sentence;
  };
  const Case cases[] = {
      {"scheme", [](Config& c) { c.server = "ftp://a"; }, "https:// or http://"},
      {"url", [](Config& c) { c.server = "http://a:99999"; }, "server must be a URL"},
      {"empty", [](Config& c) { c.server = ""; }, "server must be a URL"},
      {"user", [](Config& c) { c.server = "http://me@a"; }, "host, port and path only"},
      {"query", [](Config& c) { c.server = "http://a?b"; }, "host, port and path only"},
      {"token", [](Config& c) { c.token = "a\r\nX: y"; }, "token must be one line"},
      {"token file", [](Config& c) { c.token_file = "/nowhere"; }, "cannot read file \"/nowhere\""},
      {"no file", [](Config& c) { c.token_file = "/tmp"; }, "not a regular file"},
      {"endless", [](Config& c) { c.token_file = "/dev/zero"; }, "not a regular file"},
      {"ca", [](Config& c) { c.ca.pem = "x"; }, "certificate authority given as text"},
      {"ca file", [](Config& c) { c.ca.file = "/nowhere"; }, "certificate authority: cannot read"},
      {"key alone", [](Config& c) { c.client_key.pem = "x"; }, "given together"},
  };
  AsioExecutor executor;
  for (const Case& each : cases) {
    Config config = config_for(1);
    each.spoil(config);
    const auto transport = CurlTransport::create(config, executor);
    ASSERT_FALSE(transport) << each.name;
    EXPECT_THAT(transport.error().message, HasSubstr(each.sentence)) << each.name;
    EXPECT_THAT(transport.error().message, Not(HasSubstr("X: y"))) << each.name;
  }
}

}  // namespace
}  // namespace mgpu::kube
