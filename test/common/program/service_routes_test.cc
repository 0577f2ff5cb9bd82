#include "common/program/service_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/support/hanging_executor.h"
#include "test/support/manual_executor.h"

namespace mgpu {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServiceRoutes : public testing::Test {
 protected:
  ServiceRoutes() {
    add_service_routes(router_, metrics_, work_, [this] { return readiness_; });
    add_process_metrics(metrics_, "mgpu_test");
  }

  http::Response get(const std::string& path) {
    http::Response answer;
    router_.route({.method = "GET", .path = path},
                  [&](http::Response given) { answer = std::move(given); });
    return answer;
  }

  test::ManualExecutor executor_;
  test::HangingExecutor working_{executor_};
  Heartbeat work_{working_};
  Metrics metrics_;
  Readiness readiness_;
  http::Router router_;
};

TEST_F(ServiceRoutes, HaveHealthzAndLivez) {
  for (const char* path : {"/healthz", "/livez"}) {
    EXPECT_EQ(get(path).status, 200);
    EXPECT_EQ(get(path).body, "ok\n");
  }
}

TEST_F(ServiceRoutes, LivezFailsWhileTheWorkHangs) {
  executor_.advance(std::chrono::seconds(60));
  EXPECT_EQ(get("/livez").status, 200);
  working_.hang();
  executor_.advance(std::chrono::seconds(7));
  EXPECT_EQ(get("/livez").status, 500);
  EXPECT_EQ(get("/livez").body, "nothing has been done for 7 s\n");
  working_.go_on();
  executor_.advance(std::chrono::seconds(1));
  EXPECT_EQ(get("/livez").status, 200);
}

TEST_F(ServiceRoutes, HaveReadyz) {
  EXPECT_EQ(get("/readyz").status, 200);
  readiness_.waiting_for = {"pods"};
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_THAT(get("/readyz").body, HasSubstr("pods"));
}

TEST_F(ServiceRoutes, HaveMetrics) {
  const auto metrics = get("/metrics");
  EXPECT_EQ(metrics.content_type, kMetricsContentType);
  EXPECT_THAT(metrics.body,
              HasSubstr("mgpu_test_build_info{commit=\"unknown\",version=\"" MGPU_VERSION "\"} 1"));
  EXPECT_THAT(metrics.body, HasSubstr("\nprocess_resident_memory_bytes "));
  EXPECT_THAT(metrics.body, Not(HasSubstr("\nprocess_resident_memory_bytes 0\n")));
}

TEST_F(ServiceRoutes, HaveTheVersion) {
  EXPECT_EQ(get("/version").body, "{\"version\": \"" MGPU_VERSION "\", \"commit\": \"unknown\"}\n");
}

}  // namespace
}  // namespace mgpu
