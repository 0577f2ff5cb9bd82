#include "extender/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/base/log.h"
#include "common/http/limits.h"
#include "common/program/limits.h"
#include "extender/bind/limits.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Names = std::vector<std::string>;

struct Parsed {
  Flags flags;
  ParsedOptions options;
};

Parsed parse(std::vector<const char*> arguments) {
  Parsed parsed;
  Options options("mgpu-extender", "Tests.", "");
  add_flags(options, parsed.flags);
  arguments.insert(arguments.begin(), "mgpu-extender");
  parsed.options = options.parse(static_cast<int>(arguments.size()), arguments.data());
  return parsed;
}

std::string error_of(std::vector<const char*> arguments) {
  const Parsed parsed = parse(std::move(arguments));
  EXPECT_EQ(parsed.options.exit_code, 2);
  return parsed.options.print;
}

TEST(Flags, HaveTheDocumentedDefaults) {
  const Parsed parsed = parse({});
  ASSERT_TRUE(parsed.options.run) << parsed.options.print;
  const auto options = options_of(parsed.flags);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->http.address, "127.0.0.1");
  EXPECT_EQ(options->http.port, 9800);
  EXPECT_EQ(options->service.http.address, "127.0.0.1");
  EXPECT_EQ(options->service.http.port, 9802);
  EXPECT_FALSE(options->service.insecure);
  EXPECT_EQ(options->http.body_bytes_max, http::kHttpBodyBytesMax);
  EXPECT_EQ(options->http.connections_max, http::kHttpConnectionsMax);
  EXPECT_EQ(options->url_prefix, "/mgpu");
  EXPECT_EQ(options->verbs.contract.core_resource, "vke.volcengine.com/mgpu-core");
  EXPECT_EQ(options->verbs.min_memory, MiB(256));
  EXPECT_EQ(options->verbs.min_core, Percent(1));
  EXPECT_EQ(options->verbs.policy.node->name, "equilibrium");
  EXPECT_TRUE(options->verbs.expected_placements);
  EXPECT_EQ(options->binds_in_flight, kBindsInFlight);
  EXPECT_EQ(options->requeue_namespace, "kube-system");
}

TEST(Flags, OfListenersReachTheOptions) {
  const Parsed parsed =
      parse({"--listen-address=0.0.0.0", "--port=0", "--metrics-bind-address=[::1]:7",
             "--metrics-tls-cert-file=mc", "--metrics-tls-key-file=mk", "--allowed-hosts=h1, h2",
             "--tls-client-names=kube-scheduler,other", "--max-connections-per-address=5",
             "--http-threads=3", "--url-prefix=/a/b", "--tls-cert-file=c", "--tls-key-file=k",
             "--tls-client-ca-file=a", "--max-body-bytes=2048", "--max-connections=9"});
  ASSERT_TRUE(parsed.options.run) << parsed.options.print;
  const auto options = options_of(parsed.flags);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->http.address, "0.0.0.0");
  EXPECT_EQ(options->http.port, 0);
  EXPECT_EQ(options->http.tls.client_names, (Names{"kube-scheduler", "other"}));
  EXPECT_EQ(options->http.host_names, (Names{"h1", "h2"}));
  EXPECT_EQ(options->http.connections_per_address_max, 5U);
  EXPECT_EQ(options->service.http.address, "::1");
  EXPECT_EQ(options->service.http.port, 7);
  EXPECT_EQ(options->service.http.tls.certificate_file, "mc");
  EXPECT_EQ(options->service.http.tls.key_file, "mk");
  EXPECT_EQ(options->service.http.host_names, (Names{"h1", "h2"}));
  EXPECT_EQ(options->http.threads, 3U);
  EXPECT_EQ(options->http.tls.certificate_file, "c");
  EXPECT_EQ(options->http.tls.key_file, "k");
  EXPECT_EQ(options->http.tls.client_ca_file, "a");
  EXPECT_EQ(options->http.body_bytes_max, 2048U);
  EXPECT_EQ(options->http.connections_max, 9U);
  EXPECT_EQ(options->url_prefix, "/a/b");
}

TEST(Flags, OfDecisionsReachTheOptions) {
  const Parsed parsed = parse({"--resource-domain=example.com", "--min-memory-mib=1",
                               "--min-core=3", "--policy=spread/binpack", "--bind-concurrency=7",
                               "--expected-placements=false", "--lease-namespace=my-leases",
                               "--lease-name=my-lease", "--requeue-namespace=my-namespace"});
  ASSERT_TRUE(parsed.options.run) << parsed.options.print;
  const auto options = options_of(parsed.flags);
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->verbs.contract.core_resource, "example.com/mgpu-core");
  EXPECT_EQ(options->verbs.min_memory, MiB(1));
  EXPECT_EQ(options->verbs.min_core, Percent(3));
  EXPECT_EQ(options->verbs.policy.node->name, "spread");
  EXPECT_EQ(options->verbs.policy.card->name, "binpack");
  EXPECT_FALSE(options->verbs.expected_placements);
  EXPECT_EQ(options->binds_in_flight, 7U);
  EXPECT_EQ(options->requeue_namespace, "my-namespace");
  EXPECT_EQ(options->lease.name_space, "my-leases");
  EXPECT_EQ(options->lease.name, "my-lease");
}

TEST(Flags, AnEmptyRequeueNamespaceIsAllowed) {
  const Parsed parsed = parse({"--requeue-namespace="});
  ASSERT_TRUE(parsed.options.run) << parsed.options.print;
  EXPECT_EQ(options_of(parsed.flags)->requeue_namespace, "");
}

TEST(Flags, ARequeueNamespaceIsADnsLabel) {
  const std::string longest(63, 'a');
  for (const std::string& name : {std::string("a"), std::string("0-9"), longest}) {
    EXPECT_TRUE(parse({"--requeue-namespace", name.c_str()}).options.run) << name;
  }
  for (const std::string& name : {std::string("A"), std::string("a_b"), std::string("a/b"),
                                  std::string("a-"), std::string("a.b"), longest + 'a'}) {
    EXPECT_THAT(error_of({"--requeue-namespace", name.c_str()}), HasSubstr("--requeue-namespace"));
  }
}

TEST(Flags, TheLeaseHasANamespaceAndAName) {
  EXPECT_EQ(options_of(parse({}).flags)->lease.name_space, "kube-system");
  EXPECT_EQ(options_of(parse({}).flags)->lease.name, "mgpu-extender");
  for (const char* flag : {"--lease-namespace", "--lease-name"}) {
    EXPECT_THAT(error_of({flag, "A"}), HasSubstr(flag));
    EXPECT_THAT(error_of({flag, ""}), HasSubstr(flag));
  }
}

TEST(Flags, AnAddressForTheNetworkRequiresNamedClientCertificates) {
  const std::vector<std::vector<const char*>> refused = {
      {},
      {"--tls-cert-file=c", "--tls-key-file=k"},
      {"--tls-cert-file=c", "--tls-key-file=k", "--tls-client-ca-file=a"}};
  for (auto arguments : refused) {
    for (const char* address : {"0.0.0.0", "10.0.0.1", "::"}) {
      auto all = arguments;
      all.insert(all.begin(), {"--listen-address", address});
      EXPECT_THAT(error_of(all), HasSubstr(std::string("--listen-address: \"") + address +
                                           "\" is not a loopback address, so that it requires "
                                           "--tls-secret, or --tls-client-ca-file and "
                                           "--tls-client-names, or --insecure-listen"));
    }
  }
  EXPECT_TRUE(parse({"--listen-address=0.0.0.0", "--tls-cert-file=c", "--tls-key-file=k",
                     "--tls-client-ca-file=a", "--tls-client-names=kube-scheduler"})
                  .options.run);
  EXPECT_TRUE(parse({"--listen-address=0.0.0.0", "--tls-secret=a/b", "--tls-names=n"}).options.run);
  EXPECT_TRUE(parse({"--listen-address=0.0.0.0", "--insecure-listen"}).options.run);
  for (const char* address : {"127.0.0.1", "127.0.0.9", "::1"}) {
    EXPECT_TRUE(parse({"--listen-address", address}).options.run) << address;
  }
}

TEST(Flags, TheLogWarnsOfVerbsThatAreOpenToTheNetwork) {
  const auto log_of = [](std::vector<const char*> arguments) {
    const Parsed parsed = parse(std::move(arguments));
    EXPECT_TRUE(parsed.options.run) << parsed.options.print;
    EXPECT_TRUE(set_log_level("warn"));
    testing::internal::CaptureStderr();
    log_flags(parsed.flags);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(log_of({"--listen-address=0.0.0.0", "--insecure-listen"}),
              HasSubstr("every client that reaches this address can bind pods"));
  EXPECT_EQ(log_of({"--insecure-listen"}), "");
  EXPECT_EQ(log_of({"--listen-address=0.0.0.0", "--insecure-listen", "--tls-cert-file=c",
                    "--tls-key-file=k", "--tls-client-ca-file=a", "--tls-client-names=n"}),
            "");
}

TEST(Flags, OpenFilesLimitTheConnections) {
  ExtenderOptions options;
  options.http.connections_max = 1024;
  options.service.http.connections_max = 64;
  limit_connections(options, 16'384);
  EXPECT_EQ(options.http.connections_max, 1024U);
  limit_connections(options, 1024);
  EXPECT_EQ(options.http.connections_max, 1024U - 64 - kOpenFilesKept);
  EXPECT_EQ(options.service.http.connections_max, 64U);
}

TEST(Flags, AnInvalidFlagIsNamedInOneSentence) {
  const std::vector<std::vector<const char*>> cases = {
      {"--port", "70000"},
      {"--port", "many"},
      {"--http-threads", "0"},
      {"--url-prefix", "mgpu"},
      {"--url-prefix", "/mgpu/"},
      {"--url-prefix", "/"},
      {"--url-prefix", "/a b"},
      {"--resource-domain", "not a domain"},
      {"--policy", "cheapest"},
      {"--min-memory-mib", "-1"},
      {"--bind-concurrency", "0"},
      {"--tls-cert-file", "c"},
      {"--tls-key-file", "k"},
      {"--tls-client-ca-file", "a"},
      {"--tls-client-names", "a"},
      {"--listen-address", "localhost"},
      {"--metrics-bind-address", "127.0.0.1"},
      {"--local-metrics-bind-address", "0.0.0.0:9802"},
      {"--metrics-tls-cert-file", "c"},
      {"--allowed-hosts", ","},
      {"--max-connections-per-address", "0"},
      {"--max-body-bytes", "1"},
      {"--log-level", "loud"},
      {"--log-format", "xml"},
      {"--no-such-flag"},
  };
  for (const auto& arguments : cases) {
    const std::string sentence = error_of(arguments);
    EXPECT_THAT(sentence, HasSubstr(arguments[0]));
    EXPECT_EQ(std::ranges::count(sentence, '\n'), 1) << sentence;
  }
}

TEST(Flags, HaveHelp) {
  const Parsed parsed = parse({"--help"});
  EXPECT_EQ(parsed.options.exit_code, 0);
  EXPECT_FALSE(parsed.options.run);
  for (const char* flag : {"--kubeconfig",
                           "--context",
                           "--insecure-skip-tls-verify",
                           "--listen-address",
                           "--port",
                           "--http-threads",
                           "--url-prefix",
                           "--resource-domain",
                           "--min-memory-mib",
                           "--policy",
                           "--bind-concurrency",
                           "--expected-placements",
                           "--requeue-namespace",
                           "--lease-namespace",
                           "--lease-name",
                           "--tls-cert-file",
                           "--tls-key-file",
                           "--tls-client-ca-file",
                           "--tls-client-names",
                           "--tls-secret",
                           "--tls-names",
                           "--metrics-tls-from-secret",
                           "--insecure-listen",
                           "--metrics-bind-address",
                           "--local-metrics-bind-address",
                           "--metrics-tls-cert-file",
                           "--metrics-tls-key-file",
                           "--allowed-hosts",
                           "--max-body-bytes",
                           "--max-connections",
                           "--max-connections-per-address",
                           "--log-level",
                           "--log-format"}) {
    EXPECT_THAT(parsed.options.print, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace mgpu::extender
