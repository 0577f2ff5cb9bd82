// Whether kube-scheduler calls the extender, and the certificates of that connection.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr const char* kExpiry = "mgpu_extender_certificate_expiry_timestamp_seconds";
constexpr double kSecondsMax = 1e11;  // the year 5138; a time beyond is no time

// Pods without an extender that binds them have no cards, so that no bindVerb can just be removed.
void check_binders(const Facts& facts, Findings& findings) {
  if (known_or_add(facts.two_binders, findings)) {
    for (const SchedulerConfig& config : facts.two_binders.value()) {
      add_grouped(findings, "ConfigMap " + config.object, Level::kError,
                  fmt::format("kube-scheduler does not start with a configuration in which "
                              "several extenders have a bindVerb: {}",
                              fmt::join(config.binders, ", ")),
                  kOneBinder);
    }
  }
  for (const std::string& pod : facts.schedulers_of_two_binders) {
    add_grouped(findings, "kube-system/" + pod, Level::kError,
                "kube-scheduler has not started, because several extenders of its "
                "configuration have a bindVerb",
                kOneBinder);
  }
}

bool any_metrics(const Facts& facts) {
  return std::ranges::any_of(facts.replicas,
                             [](const ReplicaFacts& replica) { return replica.metrics.known(); });
}

double total(const Facts& facts, std::string_view name, std::string_view label = {},
             std::string_view value = {}) {
  double sum = 0;
  for (const ReplicaFacts& replica : facts.replicas) {
    if (replica.metrics.known()) sum += sum_of(replica.metrics.value(), name, label, value);
  }
  return sum;
}

// Pods with cards that kube-scheduler had the time to try.
std::vector<const GpuPod*> waiting_pods(const Facts& facts) {
  std::vector<const GpuPod*> pods;
  if (!facts.waiting_pods.known()) return pods;
  for (const GpuPod& pod : facts.waiting_pods.value()) {
    const bool old = pod.created && *pod.created + kWaitingPodAge <= facts.now;
    if (old) pods.push_back(&pod);
  }
  return pods;
}

std::vector<std::string> names_of(const std::vector<const GpuPod*>& pods) {
  std::vector<std::string> names;
  for (const GpuPod* pod : pods) names.push_back(to_string(pod->pod.ref()));
  return names;
}

void check_scheduler_errors(const std::vector<const GpuPod*>& pods, Findings& findings) {
  for (const GpuPod* pod : pods) {
    if (pod->unscheduled_reason != "SchedulerError") continue;
    add_grouped(findings, to_string(pod->pod.ref()), Level::kError,
                fmt::format("kube-scheduler has an error for a pod with cards: {}",
                            pod->unscheduled_message),
                kCheckConnection);
  }
}

void check_refused(const Facts& facts, Findings& findings) {
  std::map<std::string, double> refused;
  for (const ReplicaFacts& replica : facts.replicas) {
    if (!replica.metrics.known()) continue;
    for (const MetricSample& sample : replica.metrics.value()) {
      const auto listener = sample.labels.find("listener");
      const auto why = sample.labels.find("why");
      const bool counts = sample.name == "mgpu_extender_http_refused_total" && sample.value > 0 &&
                          listener != sample.labels.end() && listener->second == "verbs" &&
                          why != sample.labels.end();
      if (counts) refused[why->second] += sample.value;
    }
  }
  for (const auto& [why, count] : refused) {
    findings.push_back(
        {Level::kWarning,
         fmt::format("the extender refused {:.0f} connections to its verbs: {}", count, why),
         kCheckClients});
  }
}

void check_certificate(const ReplicaFacts& replica, const MetricSample& sample, Time now,
                       Findings& findings) {
  if (!(sample.value > 0 && sample.value < kSecondsMax)) return;
  const Time end(std::chrono::seconds(static_cast<std::int64_t>(sample.value)));
  const std::string name = text_or_empty(sample.labels, "certificate");
  const bool expired = end <= now;
  const std::chrono::seconds least = name == "ca" ? kAuthorityLeft : kCertificateLeft;
  if (!expired && end - now > least) return;
  add_grouped(findings, replica.name, expired ? Level::kError : Level::kWarning,
              fmt::format("the certificate \"{}\" of the extender {} at {:%FT%TZ}", name,
                          expired ? "has expired" : "expires", end),
              name == "ca" ? kRenewAuthority : kRenewCertificate);
}

}  // namespace

Findings check_scheduler(const Facts& facts) {
  Findings findings;
  check_binders(facts, findings);
  known_or_add(facts.waiting_pods, findings);
  const auto waiting = waiting_pods(facts);
  check_scheduler_errors(waiting, findings);
  if (!any_metrics(facts)) {
    findings.push_back({Level::kUnknown,
                        "no metrics of the extender could be read, so that it is not known whether "
                        "kube-scheduler calls it",
                        kSeeExtender});
    return findings;
  }
  check_refused(facts, findings);
  const double bad = total(facts, "mgpu_extender_bad_requests_total");
  if (bad > 0) {
    findings.push_back(
        {Level::kWarning,
         fmt::format("the extender could not read {:.0f} requests of kube-scheduler", bad),
         kCompareExtenders});
  }
  const double calls = total(facts, "mgpu_extender_verb_duration_seconds_count", "verb", "filter");
  if (calls == 0 && !waiting.empty()) {
    findings.push_back(
        {Level::kError,
         "pods with cards are pending, and kube-scheduler has not called filter of the "
         "extender since its start",
         kConfigureScheduler, names_of(waiting)});
  } else if (calls == 0) {
    findings.push_back(
        {Level::kNote,
         "kube-scheduler has not called filter of the extender since its start, and no "
         "pod with cards is pending, so that it had no reason to",
         kCreatePod});
  } else if (!waiting.empty()) {
    findings.push_back({Level::kNote, "pods with cards are pending", kExplain, names_of(waiting)});
  }
  return or_ok(
      std::move(findings),
      fmt::format("kube-scheduler calls the extender: filter was called {:.0f} times", calls));
}

Findings check_certificates(const Facts& facts) {
  Findings findings;
  bool any = false;
  for (const ReplicaFacts& replica : facts.replicas) {
    if (!replica.metrics.known()) continue;
    for (const MetricSample& sample : replica.metrics.value()) {
      if (sample.name != kExpiry) continue;
      any = true;
      check_certificate(replica, sample, facts.now, findings);
    }
  }
  if (!any_metrics(facts)) {
    return {
        {Level::kUnknown,
         "no metrics of the extender could be read, so that the ends of its certificates are not "
         "known",
         kSeeExtender}};
  }
  return or_ok(std::move(findings), any ? "no certificate of the extender expires soon"
                                        : "the extender reports no certificates, as on loopback");
}

}  // namespace mgpu::kubectl
