#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/flags.h"
#include "extender/prometheus/flags.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;

Result<ExtenderOptions> options_with(const promql::Access& access) {
  Flags flags;
  flags.prometheus = access;
  return options_of(flags);
}

TEST(PrometheusFlags, ReachTheOptions) {
  const auto options = options_with({"https://p:9090/", "/ca.crt", "/token"});
  ASSERT_TRUE(options) << options.error().message;
  ASSERT_TRUE(options->prometheus);
  EXPECT_EQ(options->prometheus->server, "https://p:9090");
  EXPECT_EQ(options->prometheus->ca.file, "/ca.crt");
  EXPECT_EQ(options->prometheus->token_file, "/token");
}

TEST(PrometheusFlags, ThereIsNoneByDefault) {
  const auto options = options_with({});
  ASSERT_TRUE(options);
  EXPECT_FALSE(options->prometheus);
}

TEST(PrometheusFlags, AreRefusedWithOneSentence) {
  EXPECT_THAT(options_with({"prometheus:9090"}).error().message,
              HasSubstr("--prometheus-url must be http:// or https://"));
  EXPECT_EQ(options_with({"", "/ca.crt"}).error().message,
            "--prometheus-ca requires --prometheus-url");
  EXPECT_EQ(options_with({"", "", "/token"}).error().message,
            "--prometheus-token-file requires --prometheus-url");
}

}  // namespace
}  // namespace mgpu::extender
