#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/flags.h"
#include "extender/prometheus/flags.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;

Result<ExtenderSettings> settings_with(const promql::Access& access) {
  Flags flags;
  flags.prometheus = access;
  return settings_of(flags);
}

TEST(PrometheusFlags, ReachTheSettings) {
  const auto settings = settings_with({"https://p:9090/", "/ca.crt", "/token"});
  ASSERT_TRUE(settings) << settings.error().message;
  ASSERT_TRUE(settings->prometheus);
  EXPECT_EQ(settings->prometheus->server, "https://p:9090");
  EXPECT_EQ(settings->prometheus->ca.file, "/ca.crt");
  EXPECT_EQ(settings->prometheus->token_file, "/token");
}

TEST(PrometheusFlags, ThereIsNoneByDefault) {
  const auto settings = settings_with({});
  ASSERT_TRUE(settings);
  EXPECT_FALSE(settings->prometheus);
}

TEST(PrometheusFlags, AreRefusedWithOneSentence) {
  EXPECT_THAT(settings_with({"prometheus:9090"}).error().message,
              HasSubstr("--prometheus-url must be http:// or https://"));
  EXPECT_EQ(settings_with({"", "/ca.crt"}).error().message,
            "--prometheus-ca requires --prometheus-url");
  EXPECT_EQ(settings_with({"", "", "/token"}).error().message,
            "--prometheus-token-file requires --prometheus-url");
}

}  // namespace
}  // namespace mgpu::extender
