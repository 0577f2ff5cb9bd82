// The checks of the API server, the extender and kube-scheduler, by tables.
#include "extender/kubectl/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/extender/kubectl/doctor/check_cases.h"
#include "test/extender/kubectl/doctor/good_facts.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using std::chrono::hours;
using std::chrono::seconds;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const Change kNothing = [](Facts&) {};

Change with_sample(const MetricSample& sample) {
  return [sample](Facts& facts) {
    MetricSamples samples = facts.replicas[0].metrics.value();
    samples.push_back(sample);
    facts.replicas[0].metrics = samples;
  };
}

void no_calls(Facts& facts) {
  for (ReplicaFacts& replica : facts.replicas) {
    replica.metrics =
        MetricSamples{{"mgpu_extender_verb_duration_seconds_count", {{"verb", "filter"}}, 0},
                      {"mgpu_extender_verb_duration_seconds_count", {{"verb", "bind"}}, 3}};
  }
}

TEST(Doctor, FindsNothingInAGoodInstallation) {
  const auto reports = run_checks(good_facts());
  EXPECT_FALSE(has_problems(reports));
  for (const CheckReport& report : reports) {
    ASSERT_EQ(report.findings.size(), 1U) << report.check;
    EXPECT_EQ(report.findings[0].level, Level::kOk) << report.check << report.findings[0].what;
  }
}

TEST(Doctor, DoesNotCallWellWhatItDoesNotKnow) {
  Facts facts;
  facts.contract = *Contract::for_domain(kDomain);
  const auto reports = run_checks(facts);
  EXPECT_TRUE(has_problems(reports));
  for (const CheckReport& report : reports) {
    for (const Finding& finding : report.findings) {
      EXPECT_NE(finding.level, Level::kOk) << report.check << ": " << finding.what;
    }
  }
}

TEST(Doctor, SaysOnceWhatSeveralChecksCannotRead) {
  Facts facts = good_facts();
  facts.nodes = {Missing::kForbidden, "list nodes: HTTP 403"};
  facts.waiting_pods = {Missing::kForbidden, "list pods without a node: HTTP 403"};
  std::vector<std::string> unknown;
  for (const CheckReport& report : run_checks(facts)) {
    for (const Finding& finding : report.findings) {
      if (finding.level == Level::kUnknown) unknown.push_back(finding.what);
    }
  }
  EXPECT_THAT(unknown,
              UnorderedElementsAre("list nodes: HTTP 403", "list pods without a node: HTTP 403"));
}

TEST(Doctor, KnowsTheApiServersThatAreTooOld) {
  const auto version = [](Version number) {
    return [number](Facts& facts) { facts.server = number; };
  };
  expect_findings("api-server", {{"1.24", version({1, 24, 17, "v1.24.17"}), Level::kError,
                                  "has version v1.24.17, and mgpu"},
                                 {"1.25.8", version({1, 25, 8, "v1.25.8"}), Level::kError,
                                  "ignores metadata.resourceVersion"},
                                 {"1.26.3", version({1, 26, 3, "v1.26.3"}), Level::kError,
                                  "ignores metadata.resourceVersion"},
                                 {"1.25.9", version({1, 25, 9, "v1.25.9"}), Level::kOk, "v1.25.9"},
                                 {"1.26.4", version({1, 26, 4, "v1.26.4"}), Level::kOk, "v1.26.4"},
                                 {"1.27.0", version({1, 27, 0, "v1.27.0"}), Level::kOk, "v1.27.0"},
                                 {"unreachable",
                                  [](Facts& facts) {
                                    facts.server = {Missing::kFailed, "connection refused"};
                                  },
                                  Level::kError, "connection refused", "check the kubeconfig"}});
}

TEST(Doctor, ComparesClocks) {
  const auto difference = [](int value) {
    return [value](Facts& facts) { facts.clock_difference = seconds(value); };
  };
  expect_findings("clock",
                  {{"ahead", difference(11), Level::kWarning, "is 11 s ahead of the", "NTP"},
                   {"behind", difference(-3600), Level::kWarning, "is 3600 s behind", "NTP"},
                   {"small", difference(-10), Level::kOk, "agree"},
                   {"unknown", [](Facts& facts) { facts.clock_difference = std::nullopt; },
                    Level::kNote, "does not report the time"},
                   {"holder ahead",
                    [](Facts& facts) {
                      facts.lease = LeaseFacts{kHolder, 15, now() + seconds(60)};
                    },
                    Level::kWarning, "60 s ahead of the clock of the API server"}});
}

TEST(Doctor, NamesObjectsThatCannotBeRead) {
  expect_findings("objects",
                  {{"one", [](Facts& facts) { facts.unreadable = {"list nodes: n: no"}; },
                    Level::kUnknown, "list nodes: n: no", "repair or delete the object"},
                   {"none", kNothing, Level::kOk, "can be read"}});
}

TEST(Doctor, NamesTheRightsThatServiceAccountsLack) {
  const std::string account = "kube-system/mgpu-extender";
  expect_findings("rights",
                  {{"missing",
                    [&](Facts& facts) {
                      facts.rights = std::vector{Right{account, "create pods/binding", false},
                                                 Right{account, "list nodes", true},
                                                 Right{account, "patch pods/status", false}};
                    },
                    Level::kError,
                    "the service account kube-system/mgpu-extender lacks rights",
                    "deploy/manifests/mgpu.yaml",
                    {"create pods/binding", "patch pods/status"}},
                   {"may not ask",
                    [](Facts& facts) {
                      facts.rights = {Missing::kForbidden, "HTTP 403 Forbidden"};
                    },
                    Level::kNote, "not checked: HTTP 403", "may create subjectaccessreviews"}});
}

void set_arguments(Facts& facts, std::vector<std::string> arguments) {
  auto pods = facts.extender_pods.value();
  pods.front().arguments = std::move(arguments);
  facts.extender_pods = pods;
}

TEST(Doctor, FindsFlagsInBothForms) {
  Facts facts = good_facts();
  EXPECT_EQ(facts.extender_flag("--endpoints-of"), "");
  set_arguments(facts,
                {"--endpoints", "a/x", "--endpoints-of=a/b", "--tls-secret", "c/d", "--port"});
  EXPECT_EQ(facts.extender_flag("--endpoints-of"), "a/b");
  EXPECT_EQ(facts.extender_flag("--tls-secret"), "c/d");
  EXPECT_EQ(facts.extender_flag("--port"), "");
}

TEST(Doctor, NeedsThePolicyForEndpointsWhereTheyAreWritten) {
  const auto writes_endpoints = [](Facts& facts) {
    set_arguments(facts, {"--endpoints-of=mgpu-system/mgpu-extender"});
  };
  expect_findings("policies", {{"without the policy",
                                writes_endpoints,
                                Level::kWarning,
                                "a ValidatingAdmissionPolicy of mgpu is missing",
                                "deploy/manifests/mgpu.yaml",
                                {"mgpu-extender-endpoints"}}});
}

TEST(Doctor, NeedsThePoliciesAndTheirBindings) {
  const auto without = [](const std::string& name) {
    return [name](Facts& facts) {
      auto policies = facts.policies.value();
      policies.erase(name);
      facts.policies = policies;
    };
  };
  const auto audits_only = [](Facts& facts) {
    auto bindings = facts.policy_bindings.value();
    for (PolicyBinding& binding : bindings) {
      if (binding.policy == "mgpu-cards-need-a-scheduler") binding.denies = false;
    }
    facts.policy_bindings = bindings;
  };
  const char* const absent = "a ValidatingAdmissionPolicy of mgpu is missing";
  expect_findings("policies",
                  {{"policy",
                    without("mgpu-cards-of-bound-pods"),
                    Level::kError,
                    absent,
                    "deploy/manifests/mgpu.yaml",
                    {"mgpu-cards-of-bound-pods"}},
                   {"touch policy",
                    without("mgpu-extender-touch"),
                    Level::kWarning,
                    absent,
                    "deploy/manifests/mgpu.yaml",
                    {"mgpu-extender-touch"}},
                   {"evictions policy",
                    without("mgpu-extender-evictions"),
                    Level::kWarning,
                    absent,
                    "deploy/manifests/mgpu.yaml",
                    {"mgpu-extender-evictions"}},
                   {"binding",
                    audits_only,
                    Level::kError,
                    "validationActions: [Deny]",
                    "deploy/manifests/mgpu.yaml",
                    {"mgpu-cards-need-a-scheduler"}},
                   {"old server",
                    [](Facts& facts) {
                      facts.server = Version{1, 29, 5, "v1.29.5"};
                    },
                    Level::kWarning, "need Kubernetes 1.30", "upgrade"},
                   {"no such API",
                    [](Facts& facts) {
                      facts.policies = {Missing::kAbsent, "HTTP 404"};
                    },
                    Level::kWarning, "need Kubernetes 1.30"},
                   {"forbidden",
                    [](Facts& facts) {
                      facts.policies = {Missing::kForbidden, "list policies: HTTP 403"};
                    },
                    Level::kUnknown, "list policies: HTTP 403", "whose user has this right"}});
}

TEST(Doctor, LooksAtThePodsOfTheExtender) {
  const auto pods = [](const std::function<void(std::vector<ProgramPod>&)>& change) {
    return [change](Facts& facts) {
      auto all = facts.extender_pods.value();
      change(all);
      facts.extender_pods = all;
    };
  };
  const auto none = [](Facts& facts) {
    facts.extender_pods = std::vector<ProgramPod>{};
    facts.replicas.clear();
  };
  const auto crashes = pods([](auto& all) {
    all[1].ready = false;
    all[1].waiting = "CrashLoopBackOff";
  });
  const auto pending = pods([](auto& all) {
    for (ProgramPod& pod : all) {
      pod.ready = false;
      pod.phase = "Pending";
    }
  });
  const auto ending = pods([](auto& all) {
    all[1].ready = false;
    all[1].being_deleted = true;
  });
  expect_findings("extender", {{"none", none, Level::kError,
                                "namespace kube-system has no pod of mgpu-extender", "--url"},
                               {"one of two crashes",
                                crashes,
                                Level::kWarning,
                                "not ready (CrashLoopBackOff)",
                                "kubectl logs",
                                {"kube-system/mgpu-extender-2"}},
                               {"all are pending",
                                pending,
                                Level::kError,
                                "not ready (phase Pending)",
                                "kubectl describe",
                                {"kube-system/mgpu-extender-1", "kube-system/mgpu-extender-2"}},
                               {"one ends", ending, Level::kOk, "is ready, in 1 pod"}});
}

TEST(Doctor, ReadsTheReadinessOfTheExtender) {
  const auto readiness = [](const Readiness& value) {
    return [value](Facts& facts) { facts.replicas[0].readiness = value; };
  };
  const auto unreachable = [](Facts& facts) {
    facts.replicas[0].readiness = {Missing::kFailed, "kubectl port-forward: forbidden"};
    facts.replicas[0].metrics = {Missing::kFailed, "kubectl port-forward: forbidden"};
  };
  expect_findings(
      "extender",
      {{"waits",
        readiness({false, {"nodes", "pods"}, {}, "", {}}),
        Level::kError,
        "the extender waits for: nodes, pods",
        "log",
        {"kube-system/mgpu-extender-1"}},
       {"drains", readiness({false, {}, {}, "", {}}), Level::kError, "the extender is not ready"},
       {"pods that cannot be changed",
        readiness({true, {}, {"2 pods that cannot be changed"}, "answers", {}}), Level::kWarning,
        "the extender is ready beside 2 pods that cannot be changed", "patch pods/status"},
       {"without budgets", readiness({true, {}, {"poddisruptionbudgets"}, "answers", {}}),
        Level::kWarning, "the extender is ready without poddisruptionbudgets"},
       {"no answer", readiness({true, {}, {}, "no answer for 12 s", {}}), Level::kWarning,
        "the API server gives the extender no answer for 12 s"},
       {"unreadable", readiness({true, {}, {}, "answers", {{"pods", 2}}}), Level::kWarning,
        "skips 2 objects of pods"},
       {"unreachable",
        unreachable,
        Level::kUnknown,
        "kubectl port-forward: forbidden",
        "pods/portforward",
        {"kube-system/mgpu-extender-1"}},
       {"no metrics",
        [](Facts& facts) {
          facts.replicas[0].metrics = {Missing::kForbidden, "HTTP 403"};
        },
        Level::kUnknown, "HTTP 403", "--metrics-tls-cert-file"}});
}

TEST(Doctor, ComparesVersions) {
  const auto plugin = [](const std::string& version) {
    return [version](Facts& facts) {
      ProgramPod pod = facts.plugin_pods->front();
      pod.version = version;
      facts.plugin_pods = std::vector{pod};
    };
  };
  const auto cli = [](const std::string& version) {
    return [version](Facts& facts) { facts.cli_version = version; };
  };
  expect_findings(
      "versions",
      {{"plugin one behind", plugin("0.0.9"), Level::kNote, "0.0.9, and the extender has 0.1.0"},
       {"plugin two ahead",
        plugin("0.3.0"),
        Level::kWarning,
        "0.3.0, and the extender has 0.1.0",
        "step by step",
        {"kube-system/mgpu-device-plugin-9"}},
       {"plugin with another tag", plugin("latest"), Level::kOk, "all programs"},
       {"client one ahead", cli("0.2.0"), Level::kNote, "kubectl mgpu has 0.2.0"},
       {"client of another major version", cli("1.1.0"), Level::kWarning,
        "kubectl mgpu has 1.1.0"}});
}

TEST(Doctor, NamesReplicasOfDifferentVersions) {
  Facts facts = good_facts();
  facts.replicas[1].version = std::string("0.2.0");
  EXPECT_THAT(findings_of("versions", facts),
              Contains(testing::AllOf(
                  Field(&Finding::what, HasSubstr("different versions, these have 0.2.0")),
                  Field(&Finding::objects, testing::ElementsAre("kube-system/mgpu-extender-2")))));
}

TEST(Doctor, KnowsAForeignHolderOfTheLease) {
  const auto holder = [](const std::string& name) {
    return [name](Facts& facts) { facts.lease = LeaseFacts{name, 15, now()}; };
  };
  const auto dead = [](Facts& facts) {
    facts.extender_pods = std::vector{program_pod("mgpu-extender-2", "n2")};
  };
  expect_findings(
      "leader",
      {{"foreign", holder("somebody"), Level::kError,
        "held by \"somebody\", which is no living pod", "kubectl get lease -n kube-system"},
       {"of no pod", holder("other_0123456789abcdef"), Level::kError, "no living pod"},
       {"of a pod that is gone", dead, Level::kError, "no living pod"},
       {"host network", holder("n2_0123456789abcdef"), Level::kOk, "held by \"n2_"},
       {"nobody", holder(""), Level::kError, "has no holder"},
       {"absent",
        [](Facts& facts) {
          facts.lease = {Missing::kAbsent, "HTTP 404"};
        },
        Level::kError, "no Lease kube-system/mgpu-extender", "--lease-name"},
       {"forbidden",
        [](Facts& facts) {
          facts.lease = {Missing::kForbidden, "get: HTTP 403"};
        },
        Level::kUnknown, "get: HTTP 403"},
       {"process without pods",
        [](Facts& facts) { facts.extender_pods = std::vector<ProgramPod>{}; }, Level::kNote,
        "a process outside of pods"}});
}

TEST(Doctor, KnowsALeaseThatNobodyRenews) {
  const auto renewed = [](std::optional<std::int32_t> duration, seconds ago) {
    return [=](Facts& facts) { facts.lease = LeaseFacts{kHolder, duration, now() - ago}; };
  };
  expect_findings(
      "leader",
      {{"expired", renewed(15, seconds(21)), Level::kError, "not renewed for 21 s"},
       {"just in time", renewed(15, seconds(20)), Level::kOk, "is held by"},
       {"without a duration", renewed(std::nullopt, hours(100)), Level::kOk, "is held by"}});
}

TEST(Doctor, FollowsTheServiceToTheLeader) {
  const auto addresses = [](const std::vector<std::string>& list) {
    return [list](Facts& facts) { facts.slices = std::vector{SliceFacts{list}}; };
  };
  expect_findings(
      "endpoints",
      {{"none", addresses({}), Level::kError, "have no address", "endpointslices"},
       {"another pod",
        addresses({"10.0.0.2"}),
        Level::kError,
        "not the one of the leader kube-system/mgpu-extender-1 (10.0.0.1)",
        "log",
        {"10.0.0.2"}},
       {"a foreign address besides",
        addresses({"10.0.0.1", "10.9.9.9"}),
        Level::kError,
        "not the one of the leader",
        "",
        {"10.9.9.9"}},
       {"no Service",
        [](Facts& facts) {
          facts.service_name = {Missing::kAbsent, ""};
        },
        Level::kOk, "there is no Service kube-system/mgpu-extender"},
       {"no leader", [](Facts& facts) { facts.lease = LeaseFacts{}; }, Level::kUnknown,
        "leader's address is not known"},
       {"good", kNothing, Level::kOk, "points at the leader kube-system/mgpu-extender-1"}});
}

TEST(Doctor, SaysWhenCertificatesEnd) {
  const auto end = [](const std::string& name, hours left) {
    const auto at = (now() + left).time_since_epoch().count();
    return with_sample({"mgpu_extender_certificate_expiry_timestamp_seconds",
                        {{"certificate", name}},
                        static_cast<double>(at)});
  };
  const auto no_metrics = [](Facts& facts) {
    for (ReplicaFacts& replica : facts.replicas) replica.metrics = {Missing::kFailed, "no"};
  };
  expect_findings(
      "certificates",
      {{"expired", end("server", hours(-1)), Level::kError,
        "the certificate \"server\" of the extender has expired at 2027-01-15T07:00:00Z"},
       {"soon", end("server", hours(13 * 24)), Level::kWarning, "expires at 2027-01-28T"},
       {"later", end("server", hours(15 * 24)), Level::kOk, "no certificate"},
       {"CA soon", end("ca", hours(179 * 24)), Level::kWarning, "certificate \"ca\"",
        "each kube-scheduler"},
       {"none", kNothing, Level::kOk, "reports no certificates"},
       {"no time", with_sample({"mgpu_extender_certificate_expiry_timestamp_seconds", {}, 1e300}),
        Level::kOk, "no certificate"},
       {"no metrics", no_metrics, Level::kUnknown, "no metrics"}});
}

TEST(Doctor, KnowsASchedulerThatDoesNotCall) {
  const auto waiting = [](seconds age) {
    return [age](Facts& facts) {
      no_calls(facts);
      GpuPod pod = gpu_pod("waits", "", {});
      pod.created = now() - age;
      facts.waiting_pods = std::vector{pod};
    };
  };
  expect_findings(
      "scheduler",
      {{"never called",
        waiting(seconds(31)),
        Level::kError,
        "has not called filter",
        "deploy/INSTALL.md",
        {"default/waits"}},
       {"new pod", waiting(seconds(5)), Level::kNote, "no pod with cards is pending"},
       {"no pods", no_calls, Level::kNote, "no pod with cards is pending"},
       {"called, and a pod waits",
        [](Facts& facts) { facts.waiting_pods = std::vector{gpu_pod("waits", "", {})}; },
        Level::kNote,
        "pods with cards are pending",
        "kubectl mgpu explain POD",
        {"default/waits"}},
       {"bad requests", with_sample({"mgpu_extender_bad_requests_total", {{"verb", "bind"}}, 2}),
        Level::kWarning, "could not read 2 requests", "nodeCacheCapable"},
       {"refused",
        with_sample({"mgpu_extender_http_refused_total",
                     {{"listener", "verbs"}, {"why", "certificate"}},
                     7}),
        Level::kWarning, "refused 7 connections to its verbs: certificate", "--tls-client-names"},
       {"refused elsewhere",
        with_sample({"mgpu_extender_http_refused_total",
                     {{"listener", "metrics"}, {"why", "certificate"}},
                     7}),
        Level::kOk, "filter was called 24 times"}});
}

TEST(Doctor, NamesADeviceClassThatTakesOverAResource) {
  const auto takes = [](const char* resource) {
    return [resource](Facts& facts) {
      facts.device_classes =
          std::vector{DeviceClass{"other", "a/b"}, DeviceClass{"mine", resource}};
    };
  };
  const char* const remedy = "remove spec.extendedResourceName";
  expect_findings("scheduler", {{"core",
                                 takes("vke.volcengine.com/mgpu-core"),
                                 Level::kError,
                                 "extendedResourceName vke.volcengine.com/mgpu-core",
                                 remedy,
                                 {"DeviceClass mine"}},
                                {"memory",
                                 takes("vke.volcengine.com/mgpu-memory"),
                                 Level::kError,
                                 "extendedResourceName vke.volcengine.com/mgpu-memory",
                                 remedy,
                                 {"DeviceClass mine"}}});
}

TEST(Doctor, KnowsThatOneExtenderMayBind) {
  expect_findings(
      "scheduler",
      {{"a ConfigMap",
        [](Facts& facts) {
          facts.two_binders = std::vector{SchedulerConfig{"n/s", {"http://a", "http://b"}}};
        },
        Level::kError,
        "several extenders have a bindVerb: http://a, http://b",
        "second kube-scheduler",
        {"ConfigMap n/s"}},
       {"a log",
        [](Facts& facts) { facts.schedulers_of_two_binders = {"kube-scheduler-n"}; },
        Level::kError,
        "kube-scheduler has not started",
        "second kube-scheduler",
        {"kube-system/kube-scheduler-n"}}});
}

TEST(Doctor, ShowsTheErrorOfTheScheduler) {
  Facts facts = good_facts();
  GpuPod pod = gpu_pod("waits", "", {});
  pod.unscheduled_reason = "SchedulerError";
  pod.unscheduled_message = "connection refused";
  facts.waiting_pods = std::vector{pod};
  const Findings findings = findings_of("scheduler", facts);
  EXPECT_THAT(findings, Contains(Field(&Finding::what, HasSubstr("cards: connection refused"))));
}

}  // namespace
}  // namespace mgpu::test
