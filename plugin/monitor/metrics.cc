#include "plugin/monitor/metrics.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/contract/limits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

std::optional<double> bytes(std::optional<MiB> memory) {
  if (!memory) return std::nullopt;
  return static_cast<double>(memory->value()) * 1'048'576.0;
}

std::optional<double> ratio(std::optional<double> percent) {
  if (!percent) return std::nullopt;
  return *percent / 100;
}

std::optional<double> ratio(Percent core) {
  return static_cast<double>(core.value()) / 100;
}

struct CardView {
  const CardReading& reading;
  Share allocated;
  MiB unmanaged;
};

// One family. `value` returns nothing if the card or container has no such series.
template <class Subject>
struct Metric {
  const char* name;
  const char* help;
  std::optional<double> (*value)(const Subject&);
};

constexpr Metric<CardView> kCardMetrics[] = {
    {"mgpu_card_memory_total_bytes", "Memory of the card.",
     [](const CardView& card) { return bytes(card.reading.facts.memory); }},
    {"mgpu_card_memory_used_bytes", "Memory of the card used by all processes.",
     [](const CardView& card) { return bytes(card.reading.memory_used); }},
    {"mgpu_card_memory_allocated_bytes", "Memory of the card allocated to containers.",
     [](const CardView& card) { return bytes(card.allocated.memory); }},
    {"mgpu_card_core_allocated_ratio",
     "Compute of the card allocated to containers; 1 is the card.",
     [](const CardView& card) { return ratio(card.allocated.core); }},
    {"mgpu_card_sm_utilization_ratio", "Compute of the card used by all processes; 1 is the card.",
     [](const CardView& card) { return ratio(card.reading.sm_percent); }},
    {"mgpu_card_healthy", "1 while the card is healthy, else 0.",
     [](const CardView& card) {
       return std::optional<double>(card.reading.facts.healthy() ? 1 : 0);
     }},
    {"mgpu_unmanaged_memory_bytes",
     "Memory of the card used by processes without an allocation on it.",
     [](const CardView& card) { return bytes(card.unmanaged); }},
};

constexpr Metric<ContainerUse> kContainerMetrics[] = {
    {"mgpu_container_memory_limit_bytes", "Memory of the card allocated to the container.",
     [](const ContainerUse& use) { return bytes(use.grant.share.memory); }},
    {"mgpu_container_memory_used_bytes", "Memory of the card used by the container.",
     [](const ContainerUse& use) { return bytes(use.memory_used); }},
    {"mgpu_container_memory_reserved_bytes",
     "Memory of the card that the container has reserved by the library in it.",
     [](const ContainerUse& use) { return bytes(use.reserved); }},
    {"mgpu_container_memory_uncounted_bytes",
     "Memory of the card that the container uses and the library in it has not counted; 0 without "
     "the library.",
     [](const ContainerUse& use) { return bytes(use.uncounted); }},
    {"mgpu_container_core_limit_ratio",
     "Compute of the card allocated to the container; 1 is the card.",
     [](const ContainerUse& use) { return ratio(use.grant.share.core); }},
    {"mgpu_container_sm_utilization_ratio",
     "Compute of the card used by the container; 1 is the card.",
     [](const ContainerUse& use) { return ratio(use.sm_percent); }},
    {"mgpu_container_core_usage_ratio",
     "Compute used by the container; 1 is all that is allocated to it.",
     [](const ContainerUse& use) {
       const Percent core = use.grant.share.core;
       if (!use.sm_percent || core.zero()) return std::optional<double>();
       return std::optional(*use.sm_percent / static_cast<double>(core.value()));
     }},
    {"mgpu_container_processes", "Number of processes of the container on the card.",
     [](const ContainerUse& use) { return std::optional<double>(use.processes); }},
    {"mgpu_container_processes_without_mps",
     "Number of processes of the container that use its part of the card without MPS.",
     [](const ContainerUse& use) {
       return std::optional<double>(use.part_of_one_card ? use.without_mps : 0);
     }},
};

template <class Subject>
using Labelled = std::vector<std::pair<Labels, Subject>>;

// Adds all families, since one without series removes the series of the last update.
template <class Subject, std::size_t N>
void add_families(const Metric<Subject> (&metrics)[N], const Labelled<Subject>& subjects,
                  std::vector<MetricFamily>& families) {
  for (const Metric<Subject>& metric : metrics) {
    auto family = gauges(metric.name, metric.help);
    for (const auto& [labels, subject] : subjects) {
      if (const auto value = metric.value(subject)) {
        family.metric.push_back(series(labels, *value));
      }
    }
    families.push_back(std::move(family));
  }
}

std::map<CardUuid, Share> allocated_by_card(const Joined& joined) {
  std::map<CardUuid, Share> allocated;
  for (const ContainerUse& use : joined.containers) {
    // Limited to one card, so that sums do not overflow.
    const Share& share = use.grant.share;
    allocated[use.grant.uuid] +=
        Share{std::min(share.core, kWholeCard), std::min(share.memory, MiB(kCardMemoryMiBMax))};
  }
  return allocated;
}

Labels container_labels(const ContainerUse& use) {
  return {{"namespace", use.owner.pod.name_space},
          {"pod", use.owner.pod.name},
          {"container", use.owner.container},
          {"index", std::to_string(use.grant.index.value())},
          {"uuid", use.grant.uuid.str()}};
}

double seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1'000;
}

}  // namespace

MonitorMetrics::MonitorMetrics(Metrics& metrics, NodeName node, std::string driver)
    : metrics_(metrics), node_(std::move(node)), driver_(std::move(driver)) {}

void MonitorMetrics::update(const std::vector<CardReading>& cards, const Joined& joined,
                            const std::vector<Overuse>& over, SampleTime time) {
  Uses uses;
  for (const ContainerUse& use : joined.containers) {
    const ContainerKey key(use.owner.pod, use.owner.container, use.grant.uuid);
    const auto [at, is_new] = uses.try_emplace(key, &use);
    // A pod may have replaced another one of the same name whose record still exists.
    if (!is_new && use.processes > at->second->processes) at->second = &use;
  }
  count(uses, over, time);
  MGPU_CHECK(counts_.size() == uses.size(), "counters of each container on each card");
  std::vector<MetricFamily> families;
  add_cards(cards, joined, families);
  add_containers(uses, families);
  metrics_.replace(std::move(families));
}

void MonitorMetrics::count(const Uses& uses, const std::vector<Overuse>& over, SampleTime time) {
  std::erase_if(counts_, [&](const auto& counted) { return !uses.contains(counted.first); });
  for (const auto& [key, use] : uses) {
    const auto [at, is_new] = counts_.try_emplace(key);
    Counts& counts = at->second;
    if (is_new) counts.sampled = counts.measured = time.now;
    const double core = static_cast<double>(use->grant.share.core.value()) / 100;
    MGPU_CHECK(counts.sampled <= time.now && counts.measured <= time.now, "time does not go back");
    counts.granted += core * seconds(time.now - std::exchange(counts.sampled, time.now));
    MGPU_CHECK(counts.granted >= 0, "a counter does not fall");
    if (!time.fresh) continue;
    const auto since = time.now - std::exchange(counts.measured, time.now);
    if (!use->known_percent) continue;
    const double measured = since <= kMeasuredGapMax ? seconds(since) : 0;
    counts.used = counts.used.value_or(0) + *use->known_percent / 100 * measured;
    MGPU_CHECK(*counts.used >= 0, "a counter does not fall");
  }
  for (const Overuse& one : over) {
    const auto at = counts_.find({one.owner.pod, one.owner.container, one.grant.uuid});
    if (at != counts_.end()) ++at->second.over_limit;
  }
}

void MonitorMetrics::add_cards(const std::vector<CardReading>& cards, const Joined& joined,
                               std::vector<MetricFamily>& families) const {
  const auto allocated = allocated_by_card(joined);
  Labelled<CardView> views;
  auto about = gauges("mgpu_card_info", "1 for each card of the node, with its model and driver.");
  for (const CardReading& card : cards) {
    const CardUuid& uuid = card.facts.uuid;
    const auto granted = allocated.find(uuid);
    const auto unmanaged = joined.unmanaged.find(uuid);
    Labels labels{{"node", node_.str()},
                  {"index", std::to_string(card.facts.index.value())},
                  {"uuid", uuid.str()}};
    views.emplace_back(labels,
                       CardView{card, granted == allocated.end() ? Share{} : granted->second,
                                unmanaged == joined.unmanaged.end() ? MiB{} : unmanaged->second});
    labels.insert({{"model", card.facts.model}, {"driver", driver_}});
    about.metric.push_back(series(labels, 1));
  }
  families.push_back(std::move(about));
  add_families(kCardMetrics, views, families);
}

void MonitorMetrics::add_containers(const Uses& uses, std::vector<MetricFamily>& families) const {
  Labelled<ContainerUse> subjects;
  auto over = counters("mgpu_container_over_limit_total",
                       "Number of times the container exceeded the memory allocated to it.");
  auto granted = counters("mgpu_container_granted_card_seconds_total",
                          "Compute of the card allocated to the container, times the time that it "
                          "held it; 1 is the whole card for a second.");
  auto used = counters("mgpu_container_used_card_seconds_total",
                       "Compute of the card that the container used, times the time; 1 is the "
                       "whole card for a second.");
  for (const auto& [key, use] : uses) {
    const Labels& labels = subjects.emplace_back(container_labels(*use), *use).first;
    const Counts& counts = counts_.at(key);
    over.metric.push_back(series(labels, counts.over_limit));
    granted.metric.push_back(series(labels, counts.granted));
    if (counts.used) used.metric.push_back(series(labels, *counts.used));
  }
  add_families(kContainerMetrics, subjects, families);
  for (MetricFamily* family : {&over, &granted, &used}) families.push_back(std::move(*family));
  families.push_back(owners(uses));
}

MetricFamily MonitorMetrics::owners(const Uses& uses) {
  auto family =
      gauges("mgpu_container_owner_info",
             "1 for each container that holds a share of a card, with the owner of its pod.");
  const Owner* last = nullptr;
  for (const auto& [key, use] : uses) {
    const Owner& owner = use->owner;
    // Shares of one container on several cards follow each other.
    const bool same =
        last != nullptr && last->pod == owner.pod && last->container == owner.container;
    if (same || !use->pod_owner) continue;
    last = &owner;
    family.metric.push_back(series({{"namespace", owner.pod.name_space},
                                    {"pod", owner.pod.name},
                                    {"container", owner.container},
                                    {"owner_kind", use->pod_owner->kind},
                                    {"owner", use->pod_owner->name}},
                                   1));
  }
  return family;
}

}  // namespace mgpu::plugin
