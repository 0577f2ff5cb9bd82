#include "common/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "test/common/http/served.h"
#include "test/support/raw_http.h"

namespace mgpu::http {
namespace {

using test::get_text;
using test::post_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Server, AnswersARequestWithItsLength) {
  Served served(describe);
  const auto answer = served.ask(post_text("/a/b?x=1&y=2", "four"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "POST /a/b x=1&y=2 4");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
}

TEST(Server, KeepsTheConnectionForTheNextRequest) {
  Served served(describe);
  auto client = served.connect();
  for (const char* path : {"/1", "/2", "/3"}) {
    client.send(get_text(path));
    EXPECT_EQ(client.read_response().body, std::string("GET ") + path + "  0");
  }
  EXPECT_THAT(served.connections.all(), ElementsAre("1"));
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  Served served(echo);
  auto client = served.connect();
  client.send(post_text("/", "first") + post_text("/", "second") + post_text("/", "third"));
  EXPECT_EQ(client.read_response().body, "first");
  EXPECT_EQ(client.read_response().body, "second");
  EXPECT_EQ(client.read_response().body, "third");
}

TEST(Server, TheLastResponseEndsTheConnection) {
  Served served([](const Request&, const Respond& respond) { respond({.last = true}); });
  auto client = served.connect();
  client.send(get_text("/") + get_text("/"));
  EXPECT_EQ(client.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(client.ends()) << "the second request has no response";
}

TEST(Server, ReadsARequestThatComesByteByByte) {
  Served served(echo);
  auto client = served.connect();
  for (const char c : post_text("/", "slowly")) client.send(std::string(1, c));
  EXPECT_EQ(client.read_response().body, "slowly");
}

TEST(Server, ReadsAChunkedBody) {
  Served served(echo);
  const auto answer = served.ask(
      "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n2;name=value\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(answer.body, "abcde");
}

TEST(Server, AnswersHeadWithoutTheBodyButItsLength) {
  Served served(describe);
  auto client = served.connect();
  client.send("HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.read_response(false).headers.at("content-length"), "10");
  client.send(get_text("/y"));
  EXPECT_EQ(client.read_response().body, "GET /y  0") << "no stray bytes before it";
}

TEST(Server, ClosesWhenTheClientAsksForIt) {
  Served served(describe);
  auto client = served.connect();
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
}

TEST(Server, ClosesAfterHttp10UnlessAskedToStay) {
  Served served(describe);
  auto once = served.connect();
  once.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(once.read_response().headers.at("connection"), "close");
  EXPECT_TRUE(once.ends());
  auto kept = served.connect();
  kept.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(kept.read_response().headers.at("connection"), "keep-alive");
}

TEST(Server, SendsContinueToAClientThatExpectsIt) {
  Served served(echo);
  auto client = served.connect();
  client.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.read_response(false).status, 100);
  client.send("body");
  EXPECT_EQ(client.read_response().body, "body");
}

TEST(Server, SendsStatusAndHeadersOfTheHandler) {
  Served served([](Request, Respond respond) {
    respond({.status = 405, .body = "no", .headers = {{"Allow", "GET, HEAD"}}});
  });
  const auto answer = served.ask(get_text("/"));
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.headers.at("allow"), "GET, HEAD");
}

TEST(Server, TransfersLargeBodies) {
  Served served(echo);
  const std::string body(kHttpBodyBytesMax, 'x');
  EXPECT_EQ(served.ask(post_text("/", body)).body, body);
}

TEST(Server, SendsTheResponseOfAnotherThread) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  Served served([&](Request request, Respond respond) {
    const std::lock_guard lock(mutex);
    threads.emplace_back([body = std::move(request.body), respond] { respond({.body = body}); });
  });
  auto client = served.connect();
  for (int i = 0; i < 50; ++i) {
    client.send(post_text("/", std::to_string(i)));
    EXPECT_EQ(client.read_response().body, std::to_string(i));
  }
  // The last response may arrive before the handler has stored its thread.
  const std::lock_guard lock(mutex);
  for (std::thread& thread : threads) thread.join();
}

TEST(Server, SendsOnlyTheFirstResponse) {
  Served served([](Request, Respond respond) {
    respond({.body = "first"});
    respond({.body = "second"});
  });
  auto client = served.connect();
  for (int i = 0; i < 2; ++i) {
    client.send(get_text("/"));
    EXPECT_EQ(client.read_response().body, "first");
  }
}

TEST(Server, SendsAnErrorForAHandlerWithoutAResponse) {
  Served served([](Request, Respond) {});
  EXPECT_EQ(served.ask(get_text("/")).status, 500);
}

TEST(Server, AnswersManyConnectionsAtOnce) {
  ServerOptions options;
  options.threads = 4;
  Served served(echo, options);
  std::vector<test::RawClient> clients;
  for (int i = 0; i < 200; ++i) clients.push_back(served.connect());
  for (std::size_t i = 0; i < 200; ++i) clients[i].send(post_text("/", std::to_string(i)));
  for (std::size_t i = 0; i < 200; ++i)
    EXPECT_EQ(clients[i].read_response().body, std::to_string(i));
}

TEST(Server, AnswersManyThreadsOfClients) {
  ServerOptions options;
  options.threads = 4;
  Served served(echo, options);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      auto client = served.connect();
      for (int i = 0; i < 100; ++i) {
        const std::string body = std::to_string(t) + "/" + std::to_string(i);
        client.send(post_text("/", body));
        if (client.read_response().body == body) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 16 * 100);
}

TEST(Server, SaysWhyItCannotListen) {
  Served first(describe);
  ServerOptions options;
  options.port = first.server->port();
  Served second(describe, options);
  EXPECT_EQ(second.problem, "cannot listen on 127.0.0.1:" + std::to_string(options.port) +
                                ": address already in use");
}

TEST(Server, RefusesAnInvalidAddress) {
  ServerOptions options;
  options.address = "localhost:80";
  const auto started = Server::start(options, describe, {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "listen address \"localhost:80\" is not an IP address");
}

TEST(Server, ListensOnIpv6) {
  ServerOptions options;
  options.address = "::1";
  const auto started = Server::start(options, describe, {});
  if (!started) GTEST_SKIP() << started.error().message;
  options.port = (*started)->port();
  const auto again = Server::start(options, describe, {});
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, StartsWith("cannot listen on [::1]:"));
}

TEST(Server, NeedsACertificateForAKey) {
  ServerOptions options;
  options.tls.key_file = "/nonexistent/key";
  const auto started = Server::start(options, describe, {});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("needs a certificate file"));
}

}  // namespace
}  // namespace mgpu::http
