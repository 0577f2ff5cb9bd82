#include <gtest/gtest.h>

#include "common/program/service_routes.h"

namespace mgpu {
namespace {

using namespace std::chrono_literals;

TEST(Readiness, HasStatusAndReasons) {
  struct Case {
    Readiness readiness;
    int status;
    const char* body;
  };
  const Case cases[] = {
      {{}, 200, "{\"ready\": true, \"api_server\": \"answers\"}\n"},
      {{.waiting_for = {"nodes"}}, 503, "{\"ready\": false, \"waiting_for\": [\"nodes\"]}\n"},
      {{.waiting_for = {"nodes", "pods"}},
       503,
       "{\"ready\": false, \"waiting_for\": [\"nodes\", \"pods\"]}\n"},
      {{.failing = true, .silence = 12s},
       200,
       "{\"ready\": true, \"api_server\": \"no answer for 12 s\"}\n"},
      {{.waiting_for = {"pods"}, .failing = true, .silence = 3s},
       503,
       "{\"ready\": false, \"waiting_for\": [\"pods\"], \"api_server\": \"no answer for 3 s\"}\n"},
      {{.unreadable = {{"nodes", 1}, {"pods", 40}}},
       200,
       "{\"ready\": true, \"api_server\": \"answers\", "
       "\"unreadable_objects\": {\"nodes\": 1, \"pods\": 40}}\n"},
      {{.without = {"poddisruptionbudgets"}},
       200,
       "{\"ready\": true, \"without\": [\"poddisruptionbudgets\"], \"api_server\": \"answers\"}\n"},
      {{.draining = true}, 503, "{\"ready\": false, \"draining\": true}\n"},
  };
  for (const Case& c : cases) {
    const http::Response response = readiness_response(c.readiness);
    EXPECT_EQ(response.status, c.status) << c.body;
    EXPECT_EQ(response.body, c.body);
  }
}

}  // namespace
}  // namespace mgpu
