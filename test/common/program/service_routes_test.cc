#include "common/program/service_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServiceRoutes : public testing::Test {
 protected:
  ServiceRoutes() {
    add_service_routes(router_, metrics_, [this] { return readiness_; });
    add_process_metrics(metrics_, "mgpu_test");
  }

  http::Response get(const std::string& path) {
    http::Response answer;
    router_.route({.method = "GET", .path = path},
                  [&](http::Response given) { answer = std::move(given); });
    return answer;
  }

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
