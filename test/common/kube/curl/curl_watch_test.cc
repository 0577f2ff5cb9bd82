// Watches over libcurl, against a server that splits its bytes into any packets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "common/kube/limits.h"
#include "test/support/api_calls.h"
#include "test/support/curl_world.h"
#include "test/support/scripted_server.h"

namespace mgpu::kube {
namespace {

using test::answer_text;
using test::chunk;
using test::chunked_head;
using test::config_for;
using test::CurlWorld;
using test::get_of;
using test::header_of;
using test::Peer;
using test::ScriptedServer;
using test::WatchLog;
using ::testing::HasSubstr;

constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Sends `bytes` in packets of `step` bytes.
void send_in_steps(Peer& peer, std::string_view bytes, std::size_t step) {
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    if (!peer.send(bytes.substr(at, step))) return;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

TEST(CurlWatch, DeliversLinesWhateverTheirPackets) {
  const std::string lines = "{\"a\":1}\n{\"b\":2}\n\n{\"c\":3}\n";
  const std::string whole = chunked_head() + chunk(lines) + std::string(kLastChunk);
  const std::string parts = chunked_head() + chunk(lines.substr(0, 3)) + chunk(lines.substr(3, 7)) +
                            chunk(lines.substr(10)) + std::string(kLastChunk);
  for (const std::string& bytes : {whole, parts}) {
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
      const ScriptedServer server([&](Peer& peer) {
        peer.read_request();
        send_in_steps(peer, bytes, step);
        peer.wait_for_end();
      });
      CurlWorld world(config_for(server.port()));
      WatchLog watch(world.transport(), get_of("/"));
      EXPECT_EQ(watch.next(), R"({"a":1})");
      EXPECT_EQ(watch.encoding(), Encoding::kJson);
      EXPECT_EQ(watch.next(), R"({"b":2})");
      EXPECT_EQ(watch.next(), R"({"c":3})");
      const Response end = watch.end();
      EXPECT_EQ(end.status, 200);
      EXPECT_FALSE(end.failure);
      EXPECT_EQ(end.body, "");
    }
  }
}

TEST(CurlWatch, DeliversEventsInProtobufWhateverTheirPackets) {
  const std::string events("\0\0\0\3a\nb\0\0\0\0\0\0\0\1c", 16);
  std::string head = chunked_head();
  head.insert(head.find("\r\n") + 2,
              "Content-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n");
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{1'000}}) {
    const ScriptedServer server([&](Peer& peer) {
      peer.read_request();
      send_in_steps(peer, head + chunk(events) + std::string(kLastChunk), step);
      peer.wait_for_end();
    });
    CurlWorld world(config_for(server.port()));
    WatchLog watch(world.transport(), get_of("/"));
    EXPECT_EQ(watch.next(), "a\nb");
    EXPECT_EQ(watch.encoding(), Encoding::kProtobuf);
    EXPECT_EQ(watch.next(), "c");
    EXPECT_EQ(watch.end().status, 200);
  }
}

TEST(CurlWatch, AcceptsProtobufWhereTheRequestDoes) {
  for (const bool protobuf : {false, true}) {
    const ScriptedServer server([](Peer& peer) {
      const std::string request = peer.read_request();
      peer.send(chunked_head() + chunk(header_of(request, "accept") + "\n"));
      peer.wait_for_end();
    });
    CurlWorld world(config_for(server.port()));
    Request request = get_of("/");
    request.protobuf = protobuf;
    WatchLog watch(world.transport(), request);
    EXPECT_EQ(watch.next(), protobuf ? "application/vnd.kubernetes.protobuf, application/json"
                                     : "application/json");
  }
}

TEST(CurlWatch, OpensWithoutWaitingForALine) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head());
    peer.wait_for_end();
  });
  CurlWorld world(config_for(server.port()));
  WatchLog watch(world.transport(), get_of("/"));
  EXPECT_TRUE(watch.opened());
}

TEST(CurlWatch, RequestsNoCompression) {
  const ScriptedServer server([](Peer& peer) {
    const std::string request = peer.read_request();
    peer.send(chunked_head() + chunk("[" + header_of(request, "accept-encoding") + "]\n"));
    peer.wait_for_end();
  });
  CurlWorld world(config_for(server.port()));
  WatchLog watch(world.transport(), get_of("/"));
  EXPECT_EQ(watch.next(), "[]");
}

TEST(CurlWatch, DeliversALastLineWithoutANewline) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head() + chunk("one\ntwo") + std::string(kLastChunk));
  });
  CurlWorld world(config_for(server.port()));
  WatchLog watch(world.transport(), get_of("/"));
  EXPECT_EQ(watch.next(), "one");
  EXPECT_EQ(watch.next(), "two");
  EXPECT_EQ(watch.end().status, 200);
}

TEST(CurlWatch, EndsWithTheStatusAndBodyOfARefusal) {
  for (const int status : {401, 410, 429, 500}) {
    const ScriptedServer server([&](Peer& peer) {
      peer.read_request();
      peer.send(answer_text(status, "why\n", "Retry-After: 3\r\n"));
    });
    CurlWorld world(config_for(server.port()));
    WatchLog watch(world.transport(), get_of("/"));
    const Response end = watch.end();
    EXPECT_EQ(end.status, status);
    EXPECT_EQ(end.body, "why\n");
    EXPECT_EQ(end.retry_after, Duration(3000));
    EXPECT_FALSE(watch.opened());
    EXPECT_EQ(watch.next(), std::nullopt);
  }
}

TEST(CurlWatch, EndsWithAFailureWhereTheConnectionIsLost) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head() + chunk("one\n") + "20\r\nhalf a li");
  });
  CurlWorld world(config_for(server.port()));
  WatchLog watch(world.transport(), get_of("/"));
  EXPECT_EQ(watch.next(), "one");
  const Response end = watch.end();
  ASSERT_TRUE(end.failure);
  EXPECT_TRUE(end.failure->sent);
  EXPECT_EQ(watch.next(), std::nullopt);
}

TEST(CurlWatch, CutsALineThatIsTooLongAndContinues) {
  const std::string part(1 << 16, 'x');
  const ScriptedServer server([&](Peer& peer) {
    peer.read_request();
    peer.send("HTTP/1.1 200 OK\r\n\r\nbefore\n");
    for (int line = 0; line < 2; ++line) {
      for (std::size_t sent = 0; sent < 2 * kWatchLineBytesMax; sent += part.size()) {
        peer.send(part);
      }
      peer.send("end\nafter\n");
    }
  });
  CurlWorld world(config_for(server.port()));
  WatchLog watch(world.transport(), get_of("/"));
  EXPECT_EQ(watch.next(), "before");
  for (int line = 0; line < 2; ++line) {
    EXPECT_EQ(watch.next(), std::string(kWatchLineBytesKept, 'x'));
    EXPECT_EQ(watch.next(), "after");
  }
  EXPECT_EQ(watch.end().status, 200);
}

TEST(CurlWatch, DeliversManyLinesThatTogetherExceedTheLimitOfOne) {
  const std::string line(64 << 10, 'x');
  const std::size_t count = 2 * kWatchLineBytesMax / line.size();
  const ScriptedServer server([&](Peer& peer) {
    peer.read_request();
    peer.send("HTTP/1.1 200 OK\r\n\r\n");
    for (std::size_t i = 0; i < count; ++i) peer.send(line + "\n");
  });
  CurlWorld world(config_for(server.port()));
  WatchLog watch(world.transport(), get_of("/"));
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(watch.next(), line) << i;
  EXPECT_EQ(watch.end().status, 200);
}

TEST(CurlWatch, IsNotEndedByTheTimeoutOfRequests) {
  std::latch answered(1);
  const ScriptedServer server([&](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head());
    answered.wait();
    peer.send(chunk("late\n"));
    peer.wait_for_end();
  });
  CurlWorld world(config_for(server.port()));
  Request request = get_of("/");
  request.timeout = std::chrono::milliseconds(1);
  WatchLog watch(world.transport(), request);
  EXPECT_TRUE(watch.opened());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  answered.count_down();
  EXPECT_EQ(watch.next(), "late");
}

// A stream that is destroyed by its own handler at the second line.
TEST(CurlWatch, CallsNoHandlerOnceItIsClosed) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head() + chunk("1\n2\n3\n4\n") + std::string(kLastChunk));
    peer.wait_for_end();
  });
  CurlWorld world(config_for(server.port()));
  std::latch closed(1);
  std::string seen;
  std::unique_ptr<Stream> stream;
  world.executor().post([&] {
    stream =
        world.transport().stream(get_of("/"), {.on_open = [&](Encoding) { seen += 'o'; },
                                               .on_line =
                                                   [&](std::string_view line) {
                                                     seen += line;
                                                     if (line != "2") return;
                                                     stream.reset();
                                                     closed.count_down();
                                                   },
                                               .on_end = [&](const Response&) { seen += 'e'; }});
  });
  closed.wait();
  world.destroy_transport();
  EXPECT_EQ(seen, "o12");
}

TEST(CurlWatch, AllowsAHandlerToDestroyTheTransport) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head() + chunk("1\n2\n3\n"));
    peer.wait_for_end();
  });
  AsioExecutor executor;
  auto transport = CurlTransport::create(config_for(server.port()), executor).value();
  std::latch gone(1);
  std::string seen;
  const auto stream = transport->stream(get_of("/"), {.on_open = [](Encoding) {},
                                                      .on_line =
                                                          [&](std::string_view line) {
                                                            seen += line;
                                                            transport.reset();
                                                            gone.count_down();
                                                          },
                                                      .on_end = [](const Response&) {}});
  gone.wait();
  executor.stop();
  EXPECT_EQ(seen, "1");
}

TEST(CurlWatch, MayOutliveItsTransport) {
  const ScriptedServer server([](Peer& peer) {
    peer.read_request();
    peer.wait_for_end();
  });
  std::unique_ptr<Stream> stream;
  {
    CurlWorld world(config_for(server.port()));
    stream = world.transport().stream(get_of("/"), {[](Encoding) {}, [](auto) {}, [](auto) {}});
    world.destroy_transport();
  }
  stream.reset();
}

TEST(CurlWatch, ClosesItsConnectionWhenItIsDestroyed) {
  std::latch ended(1);
  const ScriptedServer server([&](Peer& peer) {
    peer.read_request();
    peer.send(chunked_head());
    peer.wait_for_end();
    ended.count_down();
  });
  CurlWorld world(config_for(server.port()));
  {
    WatchLog watch(world.transport(), get_of("/"));
    EXPECT_TRUE(watch.opened());
  }
  ended.wait();
}

}  // namespace
}  // namespace mgpu::kube
