#include "plugin/monitor/use_metrics.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace mgpu::plugin {
namespace {

using Type = prometheus::MetricType;
using NamedShare = std::tuple<PodRef, std::string, CardUuid>;

struct UseMetric {
  const char* name;
  const char* help;
  Type type;
  // Nothing: the share has no such series.
  std::optional<double> (*value)(const ShareUse&);
};

// A difference of sums may be below 0 by a rounding error.
double since_begin(double all, double before) {
  return std::max(all - before, 0.0);
}

constexpr UseMetric kUseMetrics[] = {
    {"mgpu_container_granted_card_seconds_total",
     "Compute of the card allocated to the container, times the time that it held it; 1 is the "
     "whole card for a second.",
     Type::Counter,
     [](const ShareUse& use) {
       return std::optional(since_begin(use.granted_card_seconds, use.granted_card_seconds_before));
     }},
    {"mgpu_container_used_card_seconds_total",
     "Compute of the card that the container used, times the time; 1 is the whole card for a "
     "second.",
     Type::Counter,
     [](const ShareUse& use) {
       if (use.samples == 0) return std::optional<double>();
       return std::optional(since_begin(use.used_card_seconds, use.used_card_seconds_before));
     }},
    {"mgpu_container_memory_peak_bytes",
     "Largest memory of the card that the container used in a sample.", Type::Gauge,
     [](const ShareUse& use) {
       if (!use.memory_peak) return std::optional<double>();
       return std::optional(static_cast<double>(use.memory_peak->value()) * 1'048'576.0);
     }},
};

Labels container_labels_of(const ShareUse& use) {
  return {{"namespace", use.pod.name_space}, {"pod", use.pod.name}, {"container", use.container}};
}

// Of several shares with the same labels the one that is held, or else the one that began last. The
// clock may have gone back in between.
std::map<NamedShare, const ShareUse*> newest(const std::vector<const ShareUse*>& shares) {
  std::map<NamedShare, const ShareUse*> chosen;
  for (const ShareUse* const share : shares) {
    const auto [at, is_new] =
        chosen.try_emplace(NamedShare(share->pod, share->container, share->grant.uuid), share);
    const ShareUse& other = *at->second;
    if (std::tie(other.running, other.from, other.uid) <
        std::tie(share->running, share->from, share->uid)) {
      at->second = share;
    }
  }
  return chosen;
}

MetricFamily owners(const std::map<NamedShare, const ShareUse*>& shares) {
  MetricFamily family{"mgpu_container_owner_info",
                      "1 for each container that holds a share of a card, with the owner of its "
                      "pod.",
                      Type::Gauge,
                      {}};
  const ShareUse* last = nullptr;
  for (const auto& [key, share] : shares) {
    // Shares of one container on several cards follow each other.
    const bool same =
        last != nullptr && last->pod == share->pod && last->container == share->container;
    if (same || !share->pod_owner) continue;
    last = share;
    Labels labels = container_labels_of(*share);
    labels.insert({{"owner_kind", share->pod_owner->kind}, {"owner", share->pod_owner->name}});
    family.metric.push_back(series(labels, 1));
  }
  return family;
}

}  // namespace

void update_use_metrics(Metrics& metrics, const std::vector<const ShareUse*>& shares) {
  const auto named = newest(shares);
  std::vector<MetricFamily> families;
  for (const UseMetric& metric : kUseMetrics) {
    MetricFamily family{metric.name, metric.help, metric.type, {}};
    for (const auto& [key, share] : named) {
      const auto value = metric.value(*share);
      if (!value) continue;
      Labels labels = container_labels_of(*share);
      labels.insert({{"index", std::to_string(share->grant.index.value())},
                     {"uuid", share->grant.uuid.str()}});
      family.metric.push_back(series(labels, *value));
    }
    families.push_back(std::move(family));
  }
  families.push_back(owners(named));
  metrics.replace(std::move(families));
}

}  // namespace mgpu::plugin
