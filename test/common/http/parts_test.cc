#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "test/common/http/served.h"
#include "test/support/raw_http.h"

namespace mgpu::http {
namespace {

using namespace std::chrono_literals;
using test::get_text;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// Sets a promise when the last copy of a body's NextPart is gone.
class BodyEnd {
 public:
  std::shared_ptr<void> token() {
    auto end = std::make_shared<std::promise<void>>();
    ended_ = end->get_future();
    return {nullptr, [end](void*) { end->set_value(); }};
  }
  bool wait() { return ended_.wait_for(test::kRawWait) == std::future_status::ready; }

 private:
  std::future<void> ended_;
};

// Responds with these parts.
Handler parts(std::vector<std::string> all) {
  return [all](const Request&, const Respond& respond) {
    auto at = std::make_shared<std::size_t>(0);
    respond(
        {.content_type = "text/plain", .body = {}, .next_part = [all, at](const GivePart& give) {
           give(*at < all.size() ? all[(*at)++] : std::string());
         }});
  };
}

// Responds with the part "begin" and then with what the test gives. It serves one request.
class Open {
 public:
  Handler handler() {
    return [this](const Request&, const Respond& respond) {
      respond({.body = {}, .next_part = [this, token = end.token()](GivePart give) {
                 const int call = calls_++;
                 if (call == 0) return give("begin");
                 if (call == 1) return asked_.set_value(std::move(give));
                 unanswered_ = std::move(give);
               }});
    };
  }
  // The second part. REQUIRES: called once.
  GivePart next() {
    auto future = asked_.get_future();
    EXPECT_EQ(future.wait_for(test::kRawWait), std::future_status::ready);
    return future.get();
  }

  BodyEnd end;

 private:
  int calls_ = 0;
  std::promise<GivePart> asked_;
  GivePart unanswered_;
};

TEST(Parts, AreSentAsChunks) {
  Served served(parts({"one", "three"}));
  auto client = served.connect();
  client.send(get_text("/"));
  const std::string answer = client.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"));
}

TEST(Parts, OfHttp10EndWithTheConnection) {
  Served served(parts({"one", "two"}));
  auto client = served.connect();
  client.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\nonetwo"));
}

TEST(Parts, AreNotMadeForHead) {
  Served served([](const Request&, const Respond& respond) {
    respond({.body = {}, .next_part = [](const GivePart& give) {
               ADD_FAILURE() << "a part was asked for";
               give("");
             }});
  });
  auto client = served.connect();
  client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\n"));
}

TEST(Parts, ArriveWhileTheBodyIsOpen) {
  Open open;
  Served served(open.handler());
  auto client = served.connect();
  client.send(get_text("/"));
  const GivePart give = open.next();
  give("later");
  give("ignored");
  served.server->drain();
  const std::string answer = client.read_to_end();
  EXPECT_THAT(answer, HasSubstr("5\r\nbegin\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("ignored")));
}

TEST(Parts, EndWhereNobodyGivesTheNext) {
  Served served([](const Request&, const Respond& respond) {
    respond({.body = {}, .next_part = [](const GivePart&) {}});
  });
  auto client = served.connect();
  client.send(get_text("/"));
  EXPECT_THAT(client.read_to_end(), EndsWith("\r\n\r\n0\r\n\r\n"));
}

TEST(Parts, EndWithTheClient) {
  Open open;
  Served served(open.handler());
  GivePart give;
  {
    auto client = served.connect();
    client.send(get_text("/"));
    give = open.next();
  }
  EXPECT_TRUE(open.end.wait()) << "the body was not destroyed when its client had gone";
  give("has no effect");
}

TEST(Parts, EndAtADrain) {
  Open open;
  Served served(open.handler());
  auto client = served.connect();
  client.send(get_text("/"));
  const GivePart give = open.next();
  served.server->drain();
  EXPECT_THAT(client.read_to_end(), EndsWith("5\r\nbegin\r\n0\r\n\r\n"));
  EXPECT_TRUE(open.end.wait());
  EXPECT_TRUE(served.server->wait_drained(test::kRawWait));
}

TEST(Parts, EndAtTheAgeOfTheConnection) {
  Open open;
  Served served(open.handler(), {.connection_age_max = 2s});
  auto client = served.connect();
  client.send(get_text("/"));
  const GivePart give = open.next();
  EXPECT_THAT(client.read_to_end(), EndsWith("5\r\nbegin\r\n0\r\n\r\n"));
}

TEST(Parts, AreNotMadeAheadOfAClientThatDoesNotRead) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  constexpr int kMost = 256;  // what the socket buffers of a client may take, many times over
  std::atomic<int> made = 0;
  BodyEnd end;
  Served served(
      [&](const Request&, const Respond& respond) {
        respond({.body = {}, .next_part = [&made, token = end.token()](const GivePart& give) {
                   ++made;
                   give(made < kMost ? std::string(kPart, 'x') : "");
                 }});
      },
      {.transfer_timeout = 500ms});
  auto client = served.connect();
  client.send(get_text("/"));
  EXPECT_TRUE(served.refused.wait_for("slow_client"));
  EXPECT_TRUE(end.wait());
  EXPECT_LT(made, kMost);
}

}  // namespace
}  // namespace mgpu::http
