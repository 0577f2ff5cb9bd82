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

// The samples of this name of all extenders.
struct ReplicaSample {
  const ReplicaFacts* replica;
  const MetricSample* sample;
};
std::vector<ReplicaSample> samples_of(const Facts& facts, std::string_view name) {
  std::vector<ReplicaSample> samples;
  for (const ReplicaFacts& replica : facts.replicas) {
    for (const MetricSample& sample : items(replica.metrics)) {
      if (sample.name == name) samples.push_back({&replica, &sample});
    }
  }
  return samples;
}

bool any_metrics(const Facts& facts) {
  return std::ranges::any_of(facts.replicas,
                             [](const ReplicaFacts& replica) { return replica.metrics.known(); });
}

// --- certificates --------------------------------------------------------------------------------

// The certificates that have expired or soon do: the CA, or others.
Matches ending_certificates(const Facts& facts, bool authority) {
  return each(samples_of(facts, kExpiry), [&](const ReplicaSample& of) {
    const std::string name = text_or_empty(of.sample->labels, "certificate");
    const double seconds = of.sample->value;
    if ((name == "ca") != authority || !(seconds > 0 && seconds < kSecondsMax)) return Matches{};
    const Time end(std::chrono::seconds(static_cast<std::int64_t>(seconds)));
    const bool expired = end <= facts.now;
    return when(end - facts.now <= (authority ? kAuthorityLeft : kCertificateLeft), name,
                fmt::format("{} at {:%FT%TZ}", expired ? "has expired" : "expires", end))
        .about({of.replica->name})
        .as(expired ? Level::kError : Level::kWarning);
  });
}

constexpr const char* kCertificateEnds = "the certificate \"{0}\" of the extender {1}";

constexpr Rule kCertificates[] = {
    {last(Level::kUnknown),
     "no metrics of the extender could be read, so that the ends of its certificates are not known",
     kSeeExtender, [](At at) { return when(!any_metrics(at.facts)); }},
    {Level::kWarning, kCertificateEnds,
     to_change(
         "renew the CA as deploy/OPERATIONS.md describes, and give it to each kube-scheduler"),
     [](At at) { return ending_certificates(at.facts, true); }},
    {Level::kWarning, kCertificateEnds,
     to_change("renew it; where the extender makes its certificates itself, its log has the reason "
               "why it does not"),
     [](At at) { return ending_certificates(at.facts, false); }},
    {Level::kOk, "{0}", kNothing,
     [](At at) {
       return when(true, samples_of(at.facts, kExpiry).empty()
                             ? "the extender reports no certificates, as on loopback"
                             : "no certificate of the extender expires soon");
     }},
};

// --- scheduler -----------------------------------------------------------------------------------

// Pods without an extender that binds them have no cards, so that no bindVerb can just be removed.
constexpr Remedy kOneBinder{Act::kChange,
                            "let each kube-scheduler have one of them: remove the entry of the "
                            "other project when its pods are gone, or remove mgpu's and run a "
                            "second kube-scheduler for mgpu (scheduler.enabled of the chart)"};

// Pods with cards that kube-scheduler had the time to try.
std::vector<const GpuPod*> waiting_pods(const Facts& facts) {
  std::vector<const GpuPod*> pods;
  for (const GpuPod& pod : items(facts.waiting_pods)) {
    if (pod.created && *pod.created + kWaitingPodAge <= facts.now) pods.push_back(&pod);
  }
  return pods;
}

Matches about_waiting_pods(const Facts& facts, bool holds) {
  return each(waiting_pods(facts),
              [&](const GpuPod* pod) { return when(holds).about({to_string(pod->pod.ref())}); });
}

double filter_calls(const Facts& facts) {
  double sum = 0;
  for (const auto& [replica, sample] :
       samples_of(facts, "mgpu_extender_verb_duration_seconds_count")) {
    if (text_or_empty(sample->labels, "verb") == "filter") sum += sample->value;
  }
  return sum;
}

Matches refused_connections(At at) {
  std::map<std::string, double> refused;
  for (const auto& [replica, sample] : samples_of(at.facts, "mgpu_extender_http_refused_total")) {
    const auto why = sample->labels.find("why");
    const bool counts = sample->value > 0 && why != sample->labels.end() &&
                        text_or_empty(sample->labels, "listener") == "verbs";
    if (counts) refused[why->second] += sample->value;
  }
  return each(refused, [](const auto& why) {
    return when(true, fmt::format("{:.0f}", why.second), why.first);
  });
}

constexpr Rule kScheduler[] = {
    needs<&Facts::two_binders>(Level::kUnknown),
    {Level::kError,
     "kube-scheduler does not start with a configuration in which several extenders have a "
     "bindVerb: {0}",
     kOneBinder,
     [](At at) {
       return each(items(at.facts.two_binders), [](const SchedulerConfig& config) {
         return when(true, fmt::to_string(fmt::join(config.binders, ", ")))
             .about({"ConfigMap " + config.object});
       });
     }},
    {Level::kError,
     "kube-scheduler has not started, because several extenders of its configuration have a "
     "bindVerb",
     kOneBinder,
     [](At at) {
       return each(at.facts.schedulers_of_two_binders,
                   [](const auto& pod) { return when(true).about({"kube-system/" + pod}); });
     }},
    needs<&Facts::device_classes>(Level::kUnknown),
    {Level::kError,
     "a DeviceClass has spec.extendedResourceName {0}, which is a resource of mgpu, so that "
     "kube-scheduler may bind pods that request it to nodes without cards of mgpu",
     to_change("remove spec.extendedResourceName from the DeviceClass, or delete it"),
     [](At at) {
       return each(items(at.facts.device_classes), [&](const DeviceClass& one) {
         const Contract& contract = at.facts.contract;
         return when(one.resource == contract.core_resource ||
                         one.resource == contract.memory_resource,
                     one.resource)
             .about({"DeviceClass " + one.name});
       });
     }},
    needs<&Facts::waiting_pods>(Level::kUnknown),
    {Level::kError, "kube-scheduler has an error for a pod with cards: {0}",
     to_change("check urlPrefix, tlsConfig and httpTimeout of the extender in the configuration of "
               "kube-scheduler"),
     [](At at) {
       return each(waiting_pods(at.facts), [](const GpuPod* pod) {
         return when(pod->unscheduled_reason == "SchedulerError", pod->unscheduled_message)
             .about({to_string(pod->pod.ref())});
       });
     }},
    {last(Level::kUnknown),
     "no metrics of the extender could be read, so that it is not known whether kube-scheduler "
     "calls it",
     kSeeExtender, [](At at) { return when(!any_metrics(at.facts)); }},
    {Level::kWarning, "the extender refused {0} connections to its verbs: {1}",
     to_change("check the client certificate of kube-scheduler and --tls-client-names of the "
               "extender, which counts from its start; a scan of the network is refused, too"),
     refused_connections},
    {Level::kWarning, "the extender could not read {0} requests of kube-scheduler",
     to_change(
         "compare the extenders of its configuration with deploy/scheduler/kube-scheduler.yaml; "
         "nodeCacheCapable must be true; the extender counts from its start"),
     [](At at) {
       double bad = 0;
       for (const auto& [replica, sample] :
            samples_of(at.facts, "mgpu_extender_bad_requests_total")) {
         bad += sample->value;
       }
       return when(bad > 0, fmt::format("{:.0f}", bad));
     }},
    {Level::kError,
     "pods with cards are pending, and kube-scheduler has not called filter of the extender since "
     "its start",
     to_change("let kube-scheduler call the extender, as deploy/INSTALL.md says for each kind of "
               "cluster"),
     [](At at) { return about_waiting_pods(at.facts, filter_calls(at.facts) == 0); }},
    {Level::kNote,
     "kube-scheduler has not called filter of the extender since its start, and no pod with cards "
     "is pending, so that it had no reason to",
     to_change("create a pod with cards, and run this again"),
     [](At at) { return when(filter_calls(at.facts) == 0 && waiting_pods(at.facts).empty()); }},
    {Level::kNote, "pods with cards are pending",
     to_look("kubectl mgpu explain POD --namespace NAMESPACE has the reasons"),
     [](At at) { return about_waiting_pods(at.facts, filter_calls(at.facts) != 0); }},
    {Level::kOk, "kube-scheduler calls the extender: filter was called {0} times", kNothing,
     [](At at) { return when(true, fmt::format("{:.0f}", filter_calls(at.facts))); }},
};

}  // namespace

std::vector<Check> scheduler_checks() {
  return {{"certificates", {{Each::kInstallation, kCertificates}}},
          {"scheduler", {{Each::kInstallation, kScheduler}}}};
}

}  // namespace mgpu::kubectl
