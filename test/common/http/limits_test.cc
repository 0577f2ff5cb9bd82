// All limits and timeouts of the server.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "test/common/http/served.h"
#include "test/support/raw_http.h"

namespace {

std::atomic<bool> accept_fails = false;

}  // namespace

// Replaces accept() of the C library. A process that really has no file descriptors would break the
// sanitizers, which open a pipe to inspect memory.
extern "C" int accept(int socket, sockaddr* address, socklen_t* size) {
  static const auto real = reinterpret_cast<decltype(&accept)>(dlsym(RTLD_NEXT, "accept"));
  if (!accept_fails) return real(socket, address, size);
  errno = EMFILE;
  return -1;
}

namespace mgpu::http {
namespace {

using namespace std::chrono_literals;
using test::get_text;
using test::post_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

ServerOptions small() {
  ServerOptions options;
  options.header_bytes_max = 1024;
  options.body_bytes_max = 1000;
  return options;
}

// Timeouts that are short enough for a test.
ServerOptions short_timeouts() {
  ServerOptions options;
  options.idle_timeout = 50ms;
  options.transfer_timeout = 100ms;
  return options;
}

// A busy machine may take long between a client's connection and its first byte.
ServerOptions short_transfers() {
  ServerOptions options = short_timeouts();
  options.idle_timeout = 1h;
  return options;
}

TEST(ServerLimits, ABodyOfTheLimitIsTaken) {
  Served served(echo, small());
  const std::string body(1000, 'x');
  EXPECT_EQ(served.ask(post_text("/", body)).body, body);
  EXPECT_THAT(served.refused.all(), IsEmpty());
}

TEST(ServerLimits, ABodyOverTheLimitIs413BeforeItIsSent) {
  Served served(echo, small());
  auto client = served.connect();
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
  const auto answer = client.read_response();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, "{\"error\": \"the body is over 1000 bytes\"}\n");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), ElementsAre("body_too_large"));
}

TEST(ServerLimits, AnExpectedContinueOverTheLimitIs413) {
  Served served(echo, small());
  EXPECT_EQ(served
                .ask("POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                     "Content-Length: 1001\r\n\r\n")
                .status,
            413);
}

TEST(ServerLimits, AClientThatSendsAllOfALargeBodyFirstReads413) {
  Served served(echo, small());
  auto client = served.connect();
  EXPECT_TRUE(client.send(post_text("/", std::string(std::size_t{16} << 20, 'x'))));
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(ServerLimits, AChunkedBodyOverTheLimitIs413) {
  Served served(echo, small());
  auto client = served.connect();
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) client.send("64\r\n" + std::string(100, 'x') + "\r\n");
  EXPECT_EQ(client.read_response().status, 413);
}

TEST(ServerLimits, AHugeContentLengthIs413OrMalformed) {
  Served served(echo, small());
  const auto with_length = [&](const std::string& length) {
    return served
        .ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + "\r\n\r\n")
        .status;
  };
  EXPECT_EQ(with_length("18446744073709551615"), 413);
  EXPECT_EQ(with_length("18446744073709551616"), 400);
  EXPECT_EQ(with_length("-1"), 400);
  EXPECT_EQ(with_length("1e3"), 400);
}

TEST(ServerLimits, AHeaderOverTheLimitIs431) {
  Served served(echo, small());
  auto client = served.connect();
  client.send("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x') + "\r\n\r\n");
  const auto answer = client.read_response();
  EXPECT_EQ(answer.status, 431);
  EXPECT_EQ(answer.body, "{\"error\": \"the header is over 1024 bytes\"}\n");
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), ElementsAre("header_too_large"));
}

TEST(ServerLimits, AnEndlessHeaderIs431) {
  Served served(echo, small());
  auto client = served.connect();
  client.send("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 200; ++i) client.send("A" + std::to_string(i) + ": b\r\n");
  EXPECT_EQ(client.read_response().status, 431);
}

TEST(ServerLimits, AnEndlessChunkExtensionIs431) {
  Served served(echo, small());
  auto client = served.connect();
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3;");
  client.send(std::string(300'000, 'x'));
  EXPECT_EQ(client.read_response().status, 431);
}

TEST(ServerLimits, InvalidHttpIs400) {
  Served served(echo, small());
  for (const char* bytes :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n", "\x16\x03\x01\x02\x00\x01\r\n\r\n"}) {
    auto client = served.connect();
    client.send(bytes);
    const auto answer = client.read_response();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_THAT(answer.body, StartsWith("{\"error\": \"the request is not HTTP/1.1: ")) << bytes;
    EXPECT_TRUE(client.ends()) << bytes;
  }
  EXPECT_THAT(served.refused.all(), testing::Each("malformed"));
}

TEST(ServerLimits, ABodyWithTwoLengthsIs400) {
  Served served(echo, small());
  EXPECT_EQ(served
                .ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                     "Content-Length: 4\r\n\r\nabcd")
                .status,
            400);
  EXPECT_EQ(served
                .ask("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .status,
            400);
}

// Handlers whose responses are sent by the test.
class Pending {
 public:
  ~Pending() { respond_all(); }
  Handler handler() {
    return [this](const Request& request, Respond respond) {
      if (request.path != "/wait") return respond({.body = "done"});
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(respond));
      arrived_.notify_all();
    };
  }
  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, test::kRawWait, [&] { return waiting_.size() >= count; });
  }
  void respond_all() {
    const std::lock_guard lock(mutex_);
    for (const Respond& respond : waiting_) respond({.body = "late"});
    waiting_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Respond> waiting_;
};

TEST(ServerLimits, AConnectionTooManyIs503WhileAllOthersAreHandled) {
  Pending pending;
  ServerOptions options;
  options.connections_max = 2;
  Served served(pending.handler(), options);
  auto first = served.connect();
  auto second = served.connect();
  first.send(get_text("/wait"));
  second.send(get_text("/wait"));
  ASSERT_TRUE(pending.wait_for(2));
  auto third = served.connect();
  const auto answer = third.read_response();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "{\"error\": \"too many connections\"}\n");
  EXPECT_TRUE(third.ends());
  EXPECT_THAT(served.refused.all(), ElementsAre("too_many_connections"));
  pending.respond_all();
  EXPECT_EQ(first.read_response().body, "late");
}

TEST(ServerLimits, IdleConnectionsDoNotExcludeANewOne) {
  ServerOptions options;
  options.connections_max = 8;
  Served served(echo, options);
  auto scheduler = served.connect();
  scheduler.send(post_text("/", "in"));
  EXPECT_EQ(scheduler.read_response().body, "in");
  std::vector<test::RawClient> idle;
  for (int i = 0; i < 30; ++i) idle.push_back(served.connect());
  EXPECT_EQ(served.ask(post_text("/", "new")).body, "new");
  scheduler.send(post_text("/", "again"));
  EXPECT_EQ(scheduler.read_response().body, "again") << "connections without a request end first";
  EXPECT_TRUE(served.refused.wait_for("closed_for_another", 23));
  EXPECT_TRUE(idle.front().ends());
}

TEST(ServerLimits, AConnectionThatIsTooOldEndsAfterAResponse) {
  ServerOptions options;
  options.connection_age_max = 0ms;
  Served served(echo, options);
  auto client = served.connect();
  client.send(post_text("/", "x"));
  const auto answer = client.read_response();
  EXPECT_EQ(answer.body, "x");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
}

TEST(ServerLimits, AConnectionWaitsForAFileDescriptor) {
  Served served(echo);
  accept_fails = true;
  auto client = served.connect();
  ASSERT_TRUE(client.connected());
  EXPECT_TRUE(served.problems.wait_for("cannot accept connections: Too many open files"));
  accept_fails = false;
  client.send(post_text("/", "at last"));
  EXPECT_EQ(client.read_response().body, "at last");
  EXPECT_EQ(served.problems.all().size(), 1U) << "reported once";
}

TEST(ServerLimits, AnIdleConnectionIsClosedWithoutAResponse) {
  Served served(echo, short_timeouts());
  auto client = served.connect();
  EXPECT_TRUE(client.ends());
  EXPECT_THAT(served.refused.all(), IsEmpty());
}

TEST(ServerLimits, AConnectionThatBecomesIdleIsClosedWithoutAResponse) {
  auto options = short_timeouts();
  options.idle_timeout = 2s;
  Served served(echo, options);
  auto used = served.connect();
  used.send(post_text("/", "x"));
  EXPECT_EQ(used.read_response().status, 200);
  EXPECT_TRUE(used.ends());
  EXPECT_THAT(served.refused.all(), IsEmpty());
}

TEST(ServerLimits, ASlowHeaderIsCutOff) {
  Served served(echo, short_transfers());
  auto client = served.connect();
  for (const char c :
       std::string("GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") + std::string(5000, 'x')) {
    if (!client.send(std::string(1, c))) break;
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
}

TEST(ServerLimits, AMissingBodyIsCutOff) {
  Served served(echo, short_transfers());
  auto client = served.connect();
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
}

TEST(ServerLimits, AClientThatDoesNotReadIsCutOff) {
  Served served(
      [](Request, Respond respond) { respond({.body = std::string(std::size_t{64} << 20, 'x')}); },
      short_transfers());
  auto client = served.connect();
  client.send(get_text("/"));
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
}

TEST(ServerLimits, AHandlerMayTakeLongerThanATransfer) {
  std::promise<std::thread> started;
  Served served(
      [&](Request, Respond respond) {
        started.set_value(std::thread([respond] {
          std::this_thread::sleep_for(300ms);
          respond({.body = "late"});
        }));
      },
      short_transfers());
  EXPECT_EQ(served.ask(get_text("/")).body, "late");
  started.get_future().get().join();
}

TEST(ServerLimits, AClientMayDisconnectAtAnyTime) {
  Served served(echo);
  for (const char* bytes : {"", "GET", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab"}) {
    served.connect().send(bytes);
  }
  ASSERT_TRUE(served.connections.wait_for("0"));
  EXPECT_EQ(served.ask(post_text("/", "still here")).body, "still here");
}

// Mutations of valid requests: the server responds or closes the connection, and keeps running.
TEST(ServerLimits, RandomBytesNeverStopTheServer) {
  auto options = small();
  options.transfer_timeout = 200ms;
  options.idle_timeout = 200ms;
  Served served(echo, options);
  const std::uint32_t seed = 20261121;
  std::mt19937 random(seed);
  const std::string whole =
      post_text("/a?b=c", "body") +
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  for (int round = 0; round < 300; ++round) {
    std::string bytes = whole;
    const auto changes = 1 + random() % 8;
    for (std::uint32_t i = 0; i < changes; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    }
    bytes.resize(1 + random() % bytes.size());
    auto client = served.connect();
    client.send(bytes);
    client.end_sending();
    client.read_to_end();
  }
  EXPECT_EQ(served.ask(post_text("/", "alive")).body, "alive") << "seed " << seed;
}

}  // namespace
}  // namespace mgpu::http
