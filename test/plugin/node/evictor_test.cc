#include "plugin/node/evictor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/limits.h"
#include "common/kube/request.h"
#include "test/support/kube_objects.h"
#include "test/support/node_server.h"

namespace mgpu::plugin {
namespace {

using kube::Fault;
using Outcome = Eviction::Outcome;
using Json = test::NodeServer::Json;
using ::testing::HasSubstr;

class EvictorTest : public ::testing::Test {
 public:
  EvictorTest() {
    kube::Request create;
    create.method = kube::Method::kPost;
    create.target = "/api/v1/namespaces/ml/pods";
    create.content_type = "application/json";
    create.body = test::pod_json("train");
    const Json pod = Json::parse(server_.api().call(create).body);
    uid_ = PodUid(pod["metadata"]["uid"].get<std::string>());
  }
  Eviction evict_now(const PodUid& uid) {
    std::vector<Eviction> answers;
    evict(server_.api(), {"ml", "train"}, uid,
          [&](const Eviction& eviction) { answers.push_back(eviction); });
    server_.run();
    EXPECT_EQ(answers.size(), 1u);
    return answers.empty() ? Eviction{} : answers.front();
  }
  int status_of_pod() { return server_.api().call(kube::get_pod({"ml", "train"})).status; }

  test::NodeServer server_;
  PodUid uid_;
};

TEST_F(EvictorTest, EvictsThePod) {
  const Eviction eviction = evict_now(uid_);
  EXPECT_EQ(eviction.outcome, Outcome::kEvicted);
  EXPECT_EQ(eviction.message, "");
  EXPECT_EQ(status_of_pod(), 404);
}

TEST_F(EvictorTest, LeavesAnotherPodOfTheNameAlone) {
  EXPECT_EQ(evict_now(PodUid("another")).outcome, Outcome::kNotNow);
  EXPECT_EQ(status_of_pod(), 200);
}

TEST_F(EvictorTest, FindsThatThePodIsGone) {
  evict_now(uid_);
  EXPECT_EQ(evict_now(uid_).outcome, Outcome::kGone);
}

TEST_F(EvictorTest, SaysWhatTheServerSaid) {
  struct Case {
    Fault fault;
    Outcome outcome;
    const char* words;
  };
  const Case cases[] = {
      {{.status = 429, .body = R"({"kind":"Status","message":"budget"})"},
       Outcome::kNotNow,
       "budget"},
      {{.status = 403, .body = R"({"kind":"Status","message":"forbidden"})"},
       Outcome::kRefused,
       "evict pod ml/train: HTTP 403: forbidden"},
      {{.status = 503, .body = ""}, Outcome::kNotNow, "HTTP 503"},
      {{.status = 500, .body = "{"}, Outcome::kNotNow, "HTTP 500"},
      {{.kind = Fault::Kind::kRefuse}, Outcome::kNotNow, "connection refused"},
  };
  for (const Case& c : cases) {
    server_.fault = [&](const kube::Request&) { return c.fault; };
    const Eviction eviction = evict_now(uid_);
    EXPECT_EQ(eviction.outcome, c.outcome) << c.words;
    EXPECT_THAT(eviction.message, HasSubstr(c.words));
    EXPECT_EQ(status_of_pod(), 200);
  }
}

TEST_F(EvictorTest, PassesOnHowLongToWaitWithinReason) {
  server_.fault = [](const kube::Request&) {
    return Fault{.status = 429, .retry_after = Duration(10'000)};
  };
  EXPECT_EQ(evict_now(uid_).retry_after, Duration(10'000));
  server_.fault = [](const kube::Request&) {
    return Fault{.status = 429, .retry_after = Duration(10'000'000)};
  };
  EXPECT_EQ(evict_now(uid_).retry_after, Duration(kube::kRetryAfterMax));
}

}  // namespace
}  // namespace mgpu::plugin
