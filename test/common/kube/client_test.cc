#include "common/kube/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "common/kube/objects/object_protobuf.h"
#include "test/support/manual_executor.h"

namespace mgpu::kube {
namespace {

using ::testing::HasSubstr;
using ErrorKind = ApiError::Kind;

// Answers every request with the same response, and keeps the request.
class OneAnswer final : public Transport {
 public:
  void send(Request request, std::function<void(Response)> done) override {
    last_request = std::move(request);
    executor_.post([this, done = std::move(done)] { done(answer); });
  }
  std::unique_ptr<Stream> stream(Request, StreamEvents) override { return nullptr; }
  Executor& executor() override { return executor_; }
  void run() { executor_.run_ready(); }

  Request last_request;
  Response answer;

 private:
  test::ManualExecutor executor_;
};

Response reply_with(int code, std::string body = "") {
  return {code, std::move(body), std::nullopt, std::nullopt};
}

// As kube-apiserver writes it.
Response status_with(int code) {
  return reply_with(code,
                    R"({"kind":"Status","status":"Failure","code":)" + std::to_string(code) + "}");
}

Response failure(bool sent) {
  return {0, "", std::nullopt, TransportFailure{"connection reset", sent}};
}

TEST(ApiError, ClassifiesFailuresByWhatTheCallerCanDo) {
  const std::pair<Response, ErrorKind> cases[] = {
      {status_with(404), ErrorKind::kNotFound},
      {status_with(409), ErrorKind::kConflict},
      {status_with(400), ErrorKind::kRefused},
      {status_with(401), ErrorKind::kRefused},
      {status_with(403), ErrorKind::kRefused},
      {status_with(422), ErrorKind::kRefused},
      {status_with(301), ErrorKind::kUnknown},
      {status_with(429), ErrorKind::kUnavailable},
      {status_with(503), ErrorKind::kUnknown},
      {status_with(500), ErrorKind::kUnknown},
      {status_with(502), ErrorKind::kUnknown},
      {status_with(504), ErrorKind::kUnknown},
      {status_with(100), ErrorKind::kUnknown},
      {failure(false), ErrorKind::kUnavailable},
      {failure(true), ErrorKind::kUnknown},
      {reply_with(500,
                  R"({"kind":"Status","code":500,"message":"etcdserver: request is too large"})"),
       ErrorKind::kTooLarge},
      {reply_with(500,
                  R"({"kind":"Status","code":500,"message":"rpc error: code = ResourceExhausted )"
                  R"(desc = trying to send message larger than max"})"),
       ErrorKind::kTooLarge},
      {reply_with(500, R"({"kind":"Status","code":500,"message":"etcdserver: request timed out"})"),
       ErrorKind::kUnknown},
      {reply_with(500, R"({"code":500,"message":"etcdserver: request is too large"})"),
       ErrorKind::kUnknown},
  };
  for (const auto& [response, kind] : cases) {
    EXPECT_EQ(api_error(response).kind, kind) << response.status;
  }
}

// A proxy may write it after it has passed the request on.
TEST(ApiError, AnAnswerWithoutTheStatusOfTheApiServerSaysNothing) {
  for (const int code : {301, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 504}) {
    for (const char* body : {"", "upstream connect error", "{}", R"({"code":200})",
                             R"({"kind":"Status","code":400,"status":"Failure"} trailing)"}) {
      const bool complete = code == 400 && std::string_view(body).find("400") != std::string::npos;
      if (complete) continue;
      EXPECT_EQ(api_error(reply_with(code, body)).kind, ErrorKind::kUnknown) << code << body;
    }
  }
}

TEST(ApiError, QuotesTheServersMessageUpToALimit) {
  EXPECT_EQ(api_error(reply_with(409, R"({"reason":"Conflict","message":"pod \"p\" is\nbound"})"))
                .message,
            R"(HTTP 409 Conflict: pod "p" is\nbound)");
  EXPECT_EQ(api_error(reply_with(502, "<html>")).message, "HTTP 502: \"<html>\"");
  EXPECT_EQ(api_error(reply_with(503)).message, "HTTP 503");
  EXPECT_EQ(api_error(failure(true)).message, "connection reset");
  const std::string endless(1'000'000, 'x');
  EXPECT_LT(api_error(reply_with(500, endless)).message.size(), 2000u);
  EXPECT_LT(api_error(reply_with(500, R"({"message":")" + endless + "\"}")).message.size(), 2000u);
}

class ClientTest : public ::testing::Test {
 public:
  ApiResult<Pod> get_pod() {
    std::optional<ApiResult<Pod>> result;
    client_.get_pod({"ml", "train"}, Duration(70),
                    [&](ApiResult<Pod> got) { result.emplace(std::move(got)); });
    EXPECT_FALSE(result);
    transport_.run();
    return result.value();
  }
  ApiResult<void> bind() {
    std::optional<ApiResult<void>> result;
    client_.bind({{"ml", "train"}, PodUid("u"), NodeName("n"), {}}, Duration(70),
                 [&](ApiResult<void> got) { result.emplace(got); });
    transport_.run();
    return result.value();
  }

  OneAnswer transport_;
  Client client_{transport_};
};

TEST_F(ClientTest, GetsAPod) {
  transport_.answer = reply_with(200, R"({"metadata":{"name":"train"},"spec":{"nodeName":"n"}})");
  const auto pod = get_pod();
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->node_name, "n");
  EXPECT_EQ(transport_.last_request.target, "/api/v1/namespaces/ml/pods/train");
  EXPECT_EQ(transport_.last_request.timeout, Duration(70));
}

TEST_F(ClientTest, NamesThePodThatItCouldNotGet) {
  transport_.answer = reply_with(
      404,
      R"({"kind":"Status","code":404,"reason":"NotFound","message":"pods \"train\" not found"})");
  const auto pod = get_pod();
  ASSERT_FALSE(pod);
  EXPECT_EQ(pod.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(pod.error().message, HasSubstr("get pod ml/train: HTTP 404 NotFound"));
}

TEST_F(ClientTest, FailsWhereThePodCannotBeRead) {
  transport_.answer = reply_with(200, R"({"spec":{"containers":[{"name":5}]}})");
  const auto pod = get_pod();
  ASSERT_FALSE(pod);
  EXPECT_EQ(pod.error().kind, ErrorKind::kUnknown);
  EXPECT_THAT(pod.error().message, HasSubstr("spec.containers[0].name must be a string"));
}

TEST_F(ClientTest, Binds) {
  transport_.answer = reply_with(201, R"({"kind":"Status","status":"Success"})");
  EXPECT_TRUE(bind());
  EXPECT_EQ(transport_.last_request.method, Method::kPost);
  EXPECT_EQ(transport_.last_request.timeout, Duration(70));
  EXPECT_EQ(read_binding_protobuf(transport_.last_request.body)->uid, PodUid("u"));
}

TEST_F(ClientTest, GivesThePodAsThePatchOfItsStatusHasLeftIt) {
  transport_.answer = reply_with(200, R"({"metadata":{"resourceVersion":"7"}})");
  std::string version;
  client_.set_pod_condition(
      {"ml", "train"}, {"d/t", "v"}, Duration(70),
      [&](const ApiResult<Pod>& pod) { version = pod ? pod->metadata.resource_version : "error"; });
  transport_.run();
  EXPECT_EQ(version, "7");
  EXPECT_EQ(transport_.last_request.timeout, Duration(70));
}

TEST_F(ClientTest, GetsALease) {
  const auto get = [&] {
    std::string holder;
    client_.get_lease({"ns", "l"}, Duration(70), [&](const ApiResult<Lease>& lease) {
      holder = lease ? lease->holder + " at " + lease->resource_version : "error";
    });
    transport_.run();
    return holder;
  };
  transport_.answer =
      reply_with(200, R"({"metadata":{"resourceVersion":"7"},"spec":{"holderIdentity":"me"}})");
  EXPECT_EQ(get(), "me at 7");
  transport_.answer = reply_with(200, R"({"metadata":{"resourceVersion":"7"}})");
  EXPECT_EQ(get(), " at 7");
  transport_.answer = reply_with(200, "{}");
  EXPECT_EQ(get(), "error");
}

TEST_F(ClientTest, ReportsWhyItCouldNotBind) {
  transport_.answer =
      reply_with(409, R"({"kind":"Status","code":409,"message":"already assigned to node \"m\""})");
  const auto bound = bind();
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(bound.error().message, HasSubstr("bind pod ml/train: HTTP 409: already assigned"));
  transport_.answer = failure(true);
  EXPECT_EQ(bind().error().kind, ErrorKind::kUnknown);
}

}  // namespace
}  // namespace mgpu::kube
