#include "common/http/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace mgpu::http {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

Handler says(const std::string& body) {
  return [body](const Request&, const Respond& respond) { respond({.body = body}); };
}

Response ask(const Router& router, const std::string& method, const std::string& path) {
  Response answer;
  router.route({.method = method, .path = path},
               [&](Response given) { answer = std::move(given); });
  return answer;
}

Router small_router() {
  Router router;
  router.add("GET", "/a", says("get a"));
  router.add("POST", "/a", says("post a"));
  router.add("POST", "/b", says("post b"));
  return router;
}

TEST(Router, FindsTheHandlerByMethodAndPath) {
  const Router router = small_router();
  EXPECT_EQ(ask(router, "GET", "/a").body, "get a");
  EXPECT_EQ(ask(router, "POST", "/a").body, "post a");
  EXPECT_EQ(ask(router, "POST", "/b").body, "post b");
}

TEST(Router, HandlesHeadWithGet) {
  EXPECT_EQ(ask(small_router(), "HEAD", "/a").body, "get a");
}

TEST(Router, ReturnsNotFoundForOtherPaths) {
  for (const char* path : {"/", "", "/a/", "/A", "/a/b", "//a"}) {
    EXPECT_EQ(ask(small_router(), "GET", path).status, 404) << path;
  }
  EXPECT_EQ(ask(small_router(), "GET", "/c").body, R"({"error": "path \"/c\" not found"})"
                                                   "\n");
}

TEST(Router, CutsLongPathsInItsResponse) {
  EXPECT_LT(ask(small_router(), "GET", "/" + std::string(10'000, 'x')).body.size(), 200U);
}

TEST(Router, ListsTheAllowedMethodsOfAPath) {
  const auto answer = ask(small_router(), "DELETE", "/a");
  EXPECT_EQ(answer.status, 405);
  EXPECT_THAT(answer.headers, ElementsAre(Pair("Allow", "GET, HEAD, POST")));
  EXPECT_EQ(answer.body, R"({"error": "method \"DELETE\" is not allowed, must be GET, HEAD, POST"})"
                         "\n");
  EXPECT_EQ(ask(small_router(), "HEAD", "/b").status, 405);
}

TEST(ErrorResponse, IsJsonWhateverTheMessage) {
  const auto body = [](const std::string& message) { return error_response(400, message).body; };
  EXPECT_EQ(body("plain"), "{\"error\": \"plain\"}\n");
  EXPECT_EQ(body("a \"b\" \\c"), "{\"error\": \"a \\\"b\\\" \\\\c\"}\n");
  EXPECT_EQ(body(std::string("\x01\xff", 2)), "{\"error\": \"\\u0001\xEF\xBF\xBD\"}\n");
}

TEST(QueryValue, IsDecoded) {
  const auto value = [](const std::string& query) { return query_value(query, "name"); };
  EXPECT_EQ(value("name=a"), "a");
  EXPECT_EQ(value("x=1&name=a&y=2"), "a");
  EXPECT_EQ(value("name=a%2Fb+c%20d"), "a/b c d");
  EXPECT_EQ(value("n%61me=b"), "b");
  EXPECT_EQ(value("name=a=b"), "a=b");
  EXPECT_EQ(value("name=first&name=second"), "first");
}

TEST(QueryValue, IsEmptyWithoutTheName) {
  for (const char* query : {"", "name", "name=", "&&", "names=a", "x=name", "="}) {
    EXPECT_THAT(query_value(query, "name"), IsEmpty()) << query;
  }
}

TEST(QueryValue, KeepsAnInvalidPercentSign) {
  EXPECT_EQ(query_value("a=%", "a"), "%");
  EXPECT_EQ(query_value("a=%4", "a"), "%4");
  EXPECT_EQ(query_value("a=%zz%41", "a"), "%zzA");
}

}  // namespace
}  // namespace mgpu::http
