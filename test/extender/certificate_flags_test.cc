#include "extender/certificate_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "extender/flags.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The flags, or the sentence that refuses them.
std::pair<Flags, std::string> read_flags(std::vector<const char*> arguments) {
  Flags flags;
  Options options("mgpu-extender", "Tests.", "");
  add_flags(options, flags);
  arguments.insert(arguments.begin(), "mgpu-extender");
  const auto parsed = options.parse(static_cast<int>(arguments.size()), arguments.data());
  return {flags, parsed.run ? "" : parsed.print};
}

std::string refusal_of(std::vector<const char*> arguments) {
  return read_flags(std::move(arguments)).second;
}

TEST(CertificateFlags, ReachTheOptions) {
  const auto [flags, refusal] =
      read_flags({"--tls-secret=kube-system/mgpu-extender-tls", "--tls-names=a.svc,10.96.0.20"});
  ASSERT_EQ(refusal, "");
  const auto options = options_of(flags);
  ASSERT_TRUE(options) << options.error().message;
  ASSERT_TRUE(options->certificates);
  EXPECT_EQ(options->certificates->secret.name_space, "kube-system");
  EXPECT_EQ(options->certificates->secret.name, "mgpu-extender-tls");
  EXPECT_THAT(options->certificates->names, ElementsAre("10.96.0.20", "a.svc"));
  EXPECT_TRUE(options->http.tls.from_texts);
  EXPECT_THAT(options->http.tls.client_names, ElementsAre("kube-scheduler"));
  EXPECT_FALSE(options->service.http.tls.from_texts);
}

TEST(CertificateFlags, AreNotUsedByDefault) {
  const auto options = options_of(read_flags({}).first);
  EXPECT_FALSE(options->certificates);
  EXPECT_FALSE(options->http.tls.from_texts);
}

TEST(CertificateFlags, MayApplyToTheListenerOfMetricsToo) {
  const auto [flags, refusal] =
      read_flags({"--tls-secret=a/b", "--tls-names=n", "--metrics-tls-from-secret"});
  ASSERT_EQ(refusal, "");
  EXPECT_TRUE(options_of(flags)->service.http.tls.from_texts);
  EXPECT_THAT(refusal_of({"--metrics-tls-from-secret"}),
              HasSubstr("--metrics-tls-from-secret requires --tls-secret"));
  EXPECT_THAT(refusal_of({"--tls-secret=a/b", "--tls-names=n", "--metrics-tls-from-secret",
                          "--metrics-tls-cert-file=c", "--metrics-tls-key-file=k"}),
              HasSubstr("excludes --metrics-tls-cert-file"));
}

TEST(CertificateFlags, BelongTogether) {
  EXPECT_THAT(refusal_of({"--tls-secret=a/b"}),
              HasSubstr("--tls-secret and --tls-names must be set together"));
  EXPECT_THAT(refusal_of({"--tls-names=a"}),
              HasSubstr("--tls-secret and --tls-names must be set together"));
}

TEST(CertificateFlags, ExcludeFiles) {
  for (const char* file : {"--tls-cert-file=c", "--tls-key-file=k", "--tls-client-ca-file=a",
                           "--tls-client-names=n"}) {
    EXPECT_THAT(refusal_of({"--tls-secret=a/b", "--tls-names=n", file}),
                HasSubstr("--tls-secret excludes --tls-cert-file, "))
        << file;
  }
}

TEST(CertificateFlags, AnInvalidValueIsNamed) {
  for (const char* secret : {"a", "/a", "a/", "a/b/c", "A/b", "a/B", "a.b/c", "a/b_c", "a b/c"}) {
    EXPECT_THAT(refusal_of({"--tls-secret", secret, "--tls-names=n"}),
                HasSubstr(std::string("--tls-secret: \"") + secret +
                          "\" is not the namespace and name of a Secret, such as "
                          "\"kube-system/mgpu-extender-tls\""))
        << secret;
  }
  EXPECT_THAT(refusal_of({"--tls-secret=a/b.c", "--tls-names=a,b c"}),
              HasSubstr("--tls-names: \"b c\" is neither a DNS name nor an IP address"));
}

}  // namespace
}  // namespace mgpu::extender
