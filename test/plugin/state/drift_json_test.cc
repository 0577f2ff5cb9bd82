#include "plugin/state/drift_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace mgpu::plugin {
namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr Instant kNow{std::chrono::hours(5)};
constexpr std::chrono::sys_seconds kWallTime{seconds(1'767'323'045)};  // 2026-01-02T03:04:05Z

std::string text_of(const std::vector<Drift>& found, std::size_t left_out = 0) {
  return drifts_json(NodeName("gpu-1"), {found, left_out}, kNow, kWallTime);
}

TEST(DriftJson, HasTheMembersOfADrift) {
  EXPECT_EQ(text_of({{.kind = DriftKind::kChangedAnnotations,
                      .pod = {"ml", "a"},
                      .uid = PodUid("u"),
                      .container = "app",
                      .card = CardUuid("GPU-1"),
                      .index = CardIndex(0),
                      .since = kNow - seconds(65),
                      .message = "one sentence"}},
                    3),
            R"({"node":"gpu-1","items":[{"kind":"ChangedAnnotations","namespace":"ml","pod":"a",)"
            R"("container":"app","card":0,"uuid":"GPU-1","since":"2026-01-02T03:03:00Z",)"
            R"("message":"one sentence"}],"leftOut":3})"
            "\n");
}

TEST(DriftJson, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(text_of({{.kind = DriftKind::kProcessWithoutShare, .since = kNow, .message = "m"}}),
            R"({"node":"gpu-1","items":[{"kind":"ProcessWithoutShare",)"
            R"("since":"2026-01-02T03:04:05Z","message":"m"}],"leftOut":0})"
            "\n");
}

TEST(DriftJson, IsAnEmptyListWithoutDrifts) {
  EXPECT_EQ(text_of({}), "{\"node\":\"gpu-1\",\"items\":[],\"leftOut\":0}\n");
}

TEST(DriftJson, IsValidWhateverNamesAre) {
  const std::string hostile = "\"\n\xff" + std::string(1'000, 'x');
  const Json item = Json::parse(text_of({{.kind = DriftKind::kChangedAnnotations,
                                          .pod = {hostile, hostile},
                                          .container = hostile,
                                          .card = CardUuid(hostile),
                                          .message = hostile}}))["items"][0];
  for (const char* member : {"namespace", "pod", "container", "uuid"}) {
    const std::string name = item[member];
    EXPECT_TRUE(name.starts_with("\"\n\xEF\xBF\xBDx")) << member;
    EXPECT_LE(name.size(), 256U) << member;
  }
}

}  // namespace
}  // namespace mgpu::plugin
