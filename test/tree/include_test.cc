// Directions of includes, and the homes of libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/support/source_file.h"
#include "test/support/source_rules.h"

namespace mgpu::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<SourceFile> all_sources() {
  std::vector<SourceFile> files;
  for (const std::string folder : {"common", "extender", "plugin", "bench", "test"}) {
    const auto some = read_sources(MGPU_SOURCE_DIR, folder, {".h", ".cc"});
    files.insert(files.end(), some.begin(), some.end());
  }
  return files;
}

TEST(Tree, HasTheSourcesOfTheRules) {
  std::vector<std::string> paths;
  for (const SourceFile& file : all_sources()) paths.push_back(file.path);
  EXPECT_THAT(paths,
              testing::IsSupersetOf({"common/contract/contract.cc", "common/kube/watch/watcher.cc",
                                     "extender/placement/place.cc", "test/tree/include_test.cc"}));
}

TEST(Tree, KeepsTheDirectionsOfIncludes) {
  for (const SourceFile& file : all_sources()) EXPECT_THAT(include_complaints(file), IsEmpty());
}

TEST(Tree, KeepsPureCodePure) {
  for (const SourceFile& file : all_sources()) EXPECT_THAT(purity_complaints(file), IsEmpty());
}

TEST(Tree, HasNoUnusedHeaders) {
  EXPECT_THAT(dead_headers(all_sources()), IsEmpty());
}

// --- the rules themselves ------------------------------------------------------------------------

std::vector<std::string> complaints_of(const std::string& path, const std::string& include) {
  return include_complaints({path, "#pragma once\n\n#include " + include + "\n"});
}

TEST(IncludeRules, RefuseTheWrongDirection) {
  struct Case {
    std::string path;
    std::string include;
    std::string why;
  };
  const Case cases[] = {
      {"common/base/log.cc", "\"extender/probe.h\"", "common does not depend on programs"},
      {"common/kube/client.h", "\"plugin/agent/agent.h\"", "common does not depend on programs"},
      {"common/base/log.cc", "\"bench/sim/demo.h\"", "common does not depend on programs"},
      {"common/base/log.cc", "\"test/support/api_calls.h\"", "products do not use test code"},
      {"extender/main.cc", "\"plugin/cards/card_index.h\"", "share common/contract/contract.h"},
      {"plugin/main.cc", "\"extender/ledger/claim.h\"", "share common/contract/contract.h"},
      {"extender/bind/binder.cc", "\"test/support/api_calls.h\"", "products do not use test code"},
      {"common/http/server.h", "\"common/kube/client.h\"", "does not depend on Kubernetes"},
      {"common/kube/objects/objects.h", "\"common/kube/watch/watcher.h\"", "objects are values"},
      {"common/kube/watch/reflector.cc", "\"common/kube/curl/curl_transport.h\"", "use Transport"},
      {"plugin/cards/nvml/nvml_call.h", "\"plugin/cards/mps/mps.h\"", "MPS uses NVML"},
      {"common/kube/client.cc", "\"bench/apiserver/store.h\"", "does not depend on programs"},
      {"common/base/files.cc", "\"common/http/server.h\"", "only includes common/base"},
      {"common/base/files.cc", "\"common/contract/contract.h\"", "only includes common/base"},
      {"extender/ledger/ledger.cc", "\"extender/verbs/verbs.h\"", "verbs use the ledger"},
      {"extender/kubectl/doctor.cc", "\"extender/ledger/ledger.h\"", "through its listener only"},
      {"extender/main.cc", "\"extender/probe.cc\"", "include its header"},
      {"test/extender/extender_test.cc", "\"extender/main.cc\"", "include its header"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(complaints_of(c.path, c.include),
                ElementsAre(AllOf(HasSubstr(c.path + ":3: includes "), HasSubstr(c.why))))
        << c.path << " " << c.include;
  }
}

TEST(IncludeRules, RefuseALibraryAwayFromItsHome) {
  const std::pair<std::string, std::string> cases[] = {
      {"extender/ledger/ledger.cc", "<nlohmann/json.hpp>"},
      {"common/contract/contract.h", "<nlohmann/json.hpp>"},
      {"common/kube/client.cc", "<curl/curl.h>"},
      {"common/http/http2_session.cc", "<nghttp2/nghttp2.h>"},
      {"extender/inspect/inspect.cc", "<simdjson.h>"},
      {"extender/verbs/filter.cc", "<simdjson.h>"},
      {"extender/bind/binder.h", "<boost/asio/post.hpp>"},
      {"common/base/asio_executor.h", "<boost/asio.hpp>"},
      {"extender/main.cc", "<boost/system/result.hpp>"},
      {"common/kube/client.cc", "<openssl/ssl.h>"},
      {"extender/main.cc", "<spdlog/spdlog.h>"},
      {"extender/main.cc", "<CLI/CLI.hpp>"},
      {"extender/probe.cc", "<prometheus/counter.h>"},
      {"common/kube/config/kubeconfig.cc", "<yaml-cpp/yaml.h>"},
      {"extender/main.cc", "<grpcpp/grpcpp.h>"},
      {"extender/main.cc", "<gtest/gtest.h>"},
      {"common/base/log.h", "<fmt/format.h>"},
  };
  for (const auto& [path, include] : cases) {
    EXPECT_FALSE(complaints_of(path, include).empty()) << path << " " << include;
  }
}

TEST(IncludeRules, NameTheHomeOfALibrary) {
  EXPECT_THAT(complaints_of("extender/main.cc", "<CLI/CLI.hpp>"),
              ElementsAre("extender/main.cc:3: includes CLI/CLI.hpp: the home of CLI11 is "
                          "common/base/options.cc; use what those offer"));
}

TEST(IncludeRules, AcceptValidIncludes) {
  const std::pair<std::string, std::string> cases[] = {
      {"common/base/options.cc", "<CLI/CLI.hpp>"},
      {"common/base/files.cc", "\"common/base/files.h\""},
      {"common/base/files.h", "\"common/base/result.h\""},
      {"common/kube/curl/curl_transfer.h", "<curl/curl.h>"},
      {"common/yaml/read.cc", "<yaml-cpp/yaml.h>"},
      {"extender/wire/args.cc", "<simdjson.h>"},
      {"common/http/session.h", "<boost/beast/core.hpp>"},
      {"common/base/result.h", "<boost/system/result.hpp>"},
      {"extender/main.cc", "\"common/http/server.h\""},
      {"extender/inspect/views.h", "<nlohmann/json.hpp>"},
      {"common/base/log.cc", "<fmt/format.h>"},
      {"test/common/base/log_test.cc", "<nlohmann/json.hpp>"},
      {"extender/placement/policies/binpack.cc", "\"extender/placement/policy.h\""},
      {"extender/placement/fit.h", "\"common/base/units.h\""},
      {"extender/placement/fit.h", "<vector>"},
  };
  for (const auto& [path, include] : cases) {
    EXPECT_THAT(complaints_of(path, include), IsEmpty()) << path << " " << include;
  }
}

TEST(IncludeRules, RefuseImpureIncludesOfPureCode) {
  for (const std::string path :
       {"extender/placement/fit.h", "plugin/allocation/match.cc", "extender/pricing/prices.cc",
        "common/kube/watch/watcher.cc", "common/contract/contract.cc",
        "extender/kubectl/doctor/check_nodes.cc"}) {
    for (const std::string include :
         {"<mutex>", "<thread>", "<iostream>", "<random>", "<unistd.h>", "<sys/stat.h>",
          "\"common/base/log.h\"", "\"common/base/metrics.h\"", "\"common/kube/client.h\"",
          "\"common/base/asio_executor.h\""}) {
      EXPECT_THAT(complaints_of(path, include), ElementsAre(HasSubstr("this code is pure")))
          << path << " " << include;
    }
  }
  EXPECT_FALSE(complaints_of("extender/placement/fit.h", "<nlohmann/json.hpp>").empty());
  EXPECT_FALSE(complaints_of("extender/placement/fit.h", "<fmt/format.h>").empty());
}

TEST(IncludeRules, ReadOnlyRealIncludes) {
  const SourceFile file{"common/base/log.cc",
                        "// #include \"extender/a.h\"\n"
                        "/*\n#include \"extender/b.h\"\n*/\n"
                        "const char* k = R\"(\n#include \"extender/c.h\"\n)\";\n"
                        "#include \"extender/d.h\"\n"};
  EXPECT_THAT(include_complaints(file),
              ElementsAre(HasSubstr("common/base/log.cc:8: includes extender/d.h")));
}

TEST(PurityRules, RefuseClocksLocksRandomnessAndOutput) {
  for (const std::string code :
       {"auto t = std::chrono::steady_clock::now();", "std::mutex m;", "std::thread t(f);",
        "int r = rand();", "double r = executor.random();", "std::cout << 1;",
        "std::printf(\"x\");", "auto* f = fopen(p, m);", "std::ifstream in(p);", "getenv(\"X\");",
        "log_info(\"x\");"}) {
    EXPECT_THAT(
        purity_complaints({"extender/placement/fit.cc", "\n" + code + "\n"}),
        ElementsAre(AllOf(HasSubstr("extender/placement/fit.cc:2: "), HasSubstr(" is banned: "))))
        << code;
    EXPECT_THAT(purity_complaints({"extender/ledger/ledger.cc", code}), IsEmpty());
  }
}

TEST(PurityRules, IgnoreCommentsLiteralsAndLongerWords) {
  for (const std::string code :
       {"// std::mutex is the caller's", "/* rand( */", "f(\"std::cout\");", "operand(1);",
        "int strand(int);", "std::mutex_like m;", "R\"(fopen()\";",
        "const char* k = \"a\\\"std::mutex\";"}) {
    EXPECT_THAT(purity_complaints({"extender/placement/fit.cc", code}), IsEmpty()) << code;
  }
}

TEST(DeadHeaders, AreIncludedOnlyByTheirOwnSource) {
  const std::vector<SourceFile> files = {
      {"common/a.h", ""},
      {"common/a.cc", "#include \"common/a.h\"\n"},
      {"common/b.h", ""},
      {"common/b.cc", "#include \"common/b.h\"\n"},
      {"common/c.cc", "#include \"common/b.h\"\n"},
  };
  EXPECT_THAT(dead_headers(files), ElementsAre(HasSubstr("common/a.h:1: no file includes")));
}

}  // namespace
}  // namespace mgpu::test
