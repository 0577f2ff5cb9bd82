#include "plugin/monitor/drift_watch.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

constexpr int kTimes = 2;  // that it must be seen, or not be seen

bool is_known(DriftKind kind, const DriftFacts& facts) {
  return kind == DriftKind::kChangedAnnotations || facts.processes.has_value();
}

}  // namespace

std::vector<Drift> DriftWatch::find(DriftKind kind, const DriftFacts& facts) const {
  return kind == DriftKind::kChangedAnnotations ? changed_annotations(facts, contract_)
                                                : processes_without_share(facts, contract_);
}

void DriftWatch::update(DriftKind kind, const DriftFacts& facts, Changes& changes) {
  for (auto& [key, entry] : entries_) {
    if (std::get<DriftKind>(key) == kind) ++entry.missed;
  }
  std::size_t& without_room = left_out_[kind];
  without_room = 0;
  for (Drift& drift : find(kind, facts)) {
    drift.since = facts.now;
    drift.message = cut_text(drift.message, kDriftMessageMax);
    const Key key(kind, drift.uid, drift.container, drift.card);
    const auto known = entries_.find(key);
    if (known != entries_.end()) {
      Entry& entry = known->second;
      drift.since = entry.drift.since;
      entry.drift = std::move(drift);
      entry.last = facts.now;
      ++entry.seen;
      entry.missed = 0;
    } else if (entries_.size() < kDriftsMax) {
      entries_[key] = Entry{.drift = std::move(drift), .first = facts.now, .last = facts.now};
    } else {
      ++without_room;
    }
  }
  std::erase_if(entries_, [&](const auto& one) {
    const Entry& entry = one.second;
    if (std::get<DriftKind>(one.first) != kind || entry.missed == 0) return false;
    if (!entry.reported) return true;
    if (entry.missed < kTimes || facts.now - entry.last < kDriftConfirm) return false;
    changes.ended.push_back(entry.drift);
    return true;
  });
}

void DriftWatch::end_with_pods(DriftKind kind, const DriftFacts& facts, Changes& changes) {
  std::erase_if(entries_, [&](const auto& one) {
    const Entry& entry = one.second;
    if (std::get<DriftKind>(one.first) != kind || entry.drift.pod.name.empty()) return false;
    const kube::Pod* const pod = find_pod(facts, entry.drift.uid);
    if (pod != nullptr && !pod->finished()) return false;
    if (entry.reported) changes.ended.push_back(entry.drift);
    return true;
  });
}

void DriftWatch::report(Instant now, Changes& changes) {
  for (auto& [key, entry] : entries_) {
    if (changes.begun.size() >= kDriftsReportedPerStep) return;
    if (entry.reported || entry.seen < kTimes || now - entry.first < kDriftConfirm) continue;
    entry.reported = true;
    changes.begun.push_back(entry.drift);
  }
}

DriftWatch::Changes DriftWatch::step(const DriftFacts& facts) {
  Changes changes;
  for (const DriftKind kind : kNodeDriftKinds) {
    if (is_known(kind, facts)) {
      update(kind, facts, changes);
    } else {
      // Without a list of processes, only drifts of pods that are gone are known to have ended.
      end_with_pods(kind, facts, changes);
    }
  }
  report(facts.now, changes);
  return changes;
}

std::vector<Drift> DriftWatch::current() const {
  std::vector<Drift> all;
  for (const auto& [key, entry] : entries_) {
    if (entry.reported) all.push_back(entry.drift);
  }
  return all;
}

std::size_t DriftWatch::left_out() const {
  std::size_t all = 0;
  for (const auto& [kind, count] : left_out_) all += count;
  return all;
}

}  // namespace mgpu::plugin
