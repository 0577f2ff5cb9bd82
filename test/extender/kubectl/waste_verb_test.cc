// kubectl mgpu waste as users call it, with scripted servers in place of the API server and of
// Prometheus.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "test/extender/kubectl/scripted_cluster.h"

namespace mgpu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

std::string vector_answer(const std::string& series) {
  return R"({"status":"success","data":{"resultType":"vector","result":[)" + series + "]}}";
}

// The same value of one share.
std::string series_of(const std::string& name_space, const std::string& pod, const char* value,
                      const std::string& more = "") {
  return R"({"metric":{"namespace":")" + name_space + R"(","pod":")" + pod +
         R"(","container":"app","uuid":"GPU-0")" + more + R"(},"value":[1767225600,")" +
         std::string(value) + R"("]})";
}

// Answers every query with the same value of one share.
std::string share_answer(const char* value) {
  return vector_answer(
      series_of("research", "notebook", value, R"(,"owner_kind":"Job","owner":"nightly")"));
}

class WasteVerbTest : public testing::Test {
 protected:
  WasteVerbTest() {
    ::unsetenv("MGPU_PROMETHEUS_URL");
    cluster.extender.set("/api/v1/query?",
                         vector_answer(series_of("research", "notebook", "100") + "," +
                                       series_of("team-b", "web-7d9c-x", "1")));
  }
  Ran waste(std::vector<std::string> words) const {
    words.insert(words.begin(), {"waste", "--prometheus-url", cluster.url()});
    return cluster.with_config(std::move(words));
  }
  ScriptedCluster cluster;
};

TEST_F(WasteVerbTest, WithoutAPrometheusItSaysWhatToSet) {
  const Ran ran = cluster.with_config({"waste", "-A"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_EQ(ran.err,
            "kubectl mgpu: a Prometheus that scrapes the device plugins is needed; set "
            "--prometheus-url or $MGPU_PROMETHEUS_URL, for example to http://127.0.0.1:9090 with "
            "kubectl port-forward; see --help\n");
  EXPECT_THAT(cluster.api.requests(), IsEmpty());
}

TEST_F(WasteVerbTest, SaysWhatReplacesTheFlagsOfThePlugins) {
  for (const char* flag : {"plugin-url", "plugin-metrics-port", "mgpu-namespace"}) {
    const Ran ran = waste({"-A", std::string("--") + flag, "x"});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr(std::string("--") + flag +
                                   " was removed: waste reads a Prometheus alone, at "
                                   "--prometheus-url;"));
  }
}

TEST_F(WasteVerbTest, ShowsTheNamespaceOfTheFlagOrTheContext) {
  EXPECT_THAT(waste({"-n", "research"}).out, AllOf(HasSubstr("notebook"), Not(HasSubstr("web-"))));
  cluster.write_config(", namespace: team-b");
  EXPECT_THAT(waste({}).out, AllOf(HasSubstr("web-"), Not(HasSubstr("notebook"))));
}

TEST_F(WasteVerbTest, SelectsPodsByTheirLabels) {
  cluster.api.set("/api/v1/pods?",
                  list_of(R"({"metadata": {"name": "notebook", "namespace": "research"}})"));
  EXPECT_THAT(waste({"-A", "-l", "app=x"}).out,
              AllOf(HasSubstr("notebook"), Not(HasSubstr("web-"))));
}

TEST_F(WasteVerbTest, OwnersAreThoseOfPrometheusAndNeedNoRightToListPods) {
  EXPECT_THAT(waste({"-A", "--by", "owner"}).out, HasSubstr("Pod/notebook "));
  cluster.extender.set("/api/v1/query?", share_answer("1"));
  const Ran ran = waste({"-A", "--by", "owner"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("Job/nightly"));
  EXPECT_THAT(cluster.api.requests(), IsEmpty());
}

TEST_F(WasteVerbTest, CsvGoesToStandardOutputAlone) {
  const Ran ran = waste({"-A", "-o", "csv"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, StartsWith("namespace,owner_kind,owner,pod,container,"));
  EXPECT_EQ(std::ranges::count(ran.out, '\n'), 3);
}

TEST_F(WasteVerbTest, RefusesAWrongCommandLine) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--prometheus-url", "http://x", "--until", "yesterday"}, "found \"yesterday\""},
      {{"--prometheus-url", "", "--prometheus-token-file", "t"},
       "--prometheus-token-file requires --prometheus-url"},
      {{"--prometheus-url", "", "--prometheus-ca", "c"},
       "--prometheus-ca requires --prometheus-url"},
      {{"--prometheus-url", "x"}, "--prometheus-url must be http:// or https://"},
      {{"--prometheus-url", "http://x", "--since", "1m"}, "--since"},
      {{"--prometheus-url", "http://x", "--prometheus-matcher", "{job=\"x\"}"},
       "--prometheus-matcher must be label matchers such as job=~\".*mgpu.*\""},
      {{"--by", "team"}, "--by"},
      {{"--margin", "-1"}, "--margin"},
      {{"-o", "name"}, "--output"},
      {{"POD"}, "POD"},
  };
  for (const auto& [words, expected] : cases) {
    const Ran ran = waste(words);
    EXPECT_EQ(ran.code, 2) << expected;
    EXPECT_THAT(ran.err, HasSubstr(expected));
  }
}

TEST_F(WasteVerbTest, AsksPrometheusForTheTimeAndTheNamespace) {
  cluster.extender.set("/api/v1/query?", share_answer("1"));
  const Ran ran =
      cluster.with_config({"waste", "-n", "research", "--prometheus-url", cluster.url() + "/",
                           "--since", "1h", "--until", "2026-01-01T00:00:00Z", "-o", "json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["source"], "prometheus");
  EXPECT_EQ(json["since"], "2025-12-31T23:00:00Z");
  EXPECT_EQ(json["until"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(json["items"][0]["pod"], "notebook");
  EXPECT_EQ(json["items"][0]["owner"], "nightly");
  EXPECT_THAT(cluster.extender.requests(), Each(HasSubstr("&time=1767225600&timeout=")));
  EXPECT_THAT(cluster.extender.requests(), Contains(HasSubstr("namespace%3D%22research%22")));
}

TEST_F(WasteVerbTest, WithPrometheusAndAllNamespacesNoClusterIsNeeded) {
  cluster.extender.set("/api/v1/query?", vector_answer(""));
  const Ran ran = run({"waste", "-A", "--prometheus-url", cluster.url(), "--kubeconfig",
                       cluster.folder.path("no-such-file")});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err, StartsWith("No container held a share of a card. From Prometheus, since "));
}

TEST_F(WasteVerbTest, TheEnvironmentNamesAPrometheus) {
  cluster.extender.set("/api/v1/query?", vector_answer(""));
  ::setenv("MGPU_PROMETHEUS_URL", cluster.url().c_str(), 1);
  const Ran ran = cluster.with_config({"waste", "-A"});
  ::unsetenv("MGPU_PROMETHEUS_URL");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("From Prometheus"));
}

TEST_F(WasteVerbTest, SaysWhatPrometheusSays) {
  cluster.extender.set("/api/v1/query?",
                       R"({"status":"error","errorType":"execution","error":"too many samples"})",
                       422);
  const Ran ran = cluster.with_config({"waste", "-A", "--prometheus-url", cluster.url()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, IsEmpty());
  EXPECT_THAT(ran.err,
              StartsWith("kubectl mgpu: Prometheus answers 422 execution: too many samples\n"));
}

TEST_F(WasteVerbTest, AsksOnlyForTheJobsOfDevicePluginsOrOfTheFlag) {
  cluster.extender.set("/api/v1/query?", share_answer("1"));
  ASSERT_EQ(cluster.with_config({"waste", "-A", "--prometheus-url", cluster.url()}).code, 0);
  EXPECT_THAT(cluster.extender.requests(), Each(HasSubstr("job%3D~%22.%2Amgpu.%2A%22")));
  cluster.with_config({"waste", "-A", "--prometheus-url", cluster.url(), "--prometheus-matcher",
                       "job=\"plugins\""});
  EXPECT_THAT(cluster.extender.requests().back(), HasSubstr("job%3D%22plugins%22"));
}

TEST_F(WasteVerbTest, SaysThatNoJobMatches) {
  cluster.extender.set("/api/v1/query?", vector_answer(""));
  cluster.extender.set("/api/v1/query?query=count%28max_over_time", share_answer("1"));
  const Ran ran = cluster.with_config({"waste", "-A", "--prometheus-url", cluster.url()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err,
              HasSubstr("Prometheus has shares of cards, but none of a series that matches "
                        "job=~\".*mgpu.*\"; --prometheus-matcher names the scrape jobs of the "
                        "device plugins\n"));
}

// Numbers of a cluster of VictoriaMetrics without a part of its storage are no account.
TEST_F(WasteVerbTest, SaysThatAPartialAnswerIsIncomplete) {
  cluster.extender.set("/api/v1/query?", R"({"status": "success", "isPartial": true, "data":
      {"resultType": "vector", "result": [{"metric": {"namespace": "a", "pod": "p",
       "container": "c", "uuid": "GPU-1"}, "value": [1767225600, "100"]}]}})");
  std::vector<std::string> words = {"waste", "-A", "--prometheus-url", cluster.url()};
  const Ran ran = cluster.with_config(words);
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("\nIncomplete. Granted "));
  EXPECT_THAT(ran.err, HasSubstr("Prometheus warns: the answer is partial"));
  words.insert(words.end(), {"-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(cluster.with_config(words).out)["problems"].size(), 1U);
}

TEST_F(WasteVerbTest, NamesTheTenantAndShowsTheWordsOfAServerThatRefuses) {
  cluster.extender.require_tenant("team-a");
  cluster.extender.set("/api/v1/query?",
                       R"({"status":"success","data":{"resultType":"vector","result":[]}})");
  std::vector<std::string> words = {"waste", "-A", "--prometheus-url", cluster.url()};
  EXPECT_THAT(cluster.with_config(words).err,
              HasSubstr("answers 401 with \"no org id\"; the token in the file"));
  words.insert(words.end(), {"--prometheus-tenant", "team-a"});
  const Ran ran = cluster.with_config(words);
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(WasteVerbTest, ShowsTheWarningsOfPrometheus) {
  cluster.extender.set("/api/v1/query?",
                       R"({"status":"success","data":{"resultType":"vector","result":[]},
                           "warnings":["a store does not answer"]})");
  const Ran ran = cluster.with_config({"waste", "-A", "--prometheus-url", cluster.url()});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("Prometheus warns: a store does not answer\n"));
}

}  // namespace
}  // namespace mgpu::test
