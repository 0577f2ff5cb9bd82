#include "extender/ledger/ledger_state.h"

#include <optional>
#include <utility>
#include <vector>

namespace mgpu::ledger {

NodeRecord* Ledger::State::find(std::string_view node) {
  return by_name.find(node);
}

NodeRecord* Ledger::State::find_present(std::string_view node) {
  NodeRecord* record = find(node);
  return record != nullptr && record->present ? record : nullptr;
}

void Ledger::State::apply(NodeFacts facts) {
  NodeRecord& record = record_of(facts.name);
  if (!changes(record, facts)) {
    record.problem = std::move(facts.problem);
    return;
  }
  // What was expected was decided on other cards.
  expectations.end_on(record);
  ++releases;
  set_facts(record, std::move(facts));
}

void Ledger::State::remove(NodeRecord& record) {
  expectations.end_on(record);
  set_absent(record);
  erase_if_empty(record);
}

Entry& Ledger::State::insert(Claim claim, Phase phase, Instant touched) {
  Entry& entry = claims.add(std::move(claim), phase, touched);
  add(record_of(entry.view.claim.node), entry);
  return entry;
}

void Ledger::State::release(Entry& entry) {
  ++releases;
  NodeRecord& record = *entry.home;
  ledger::remove(entry);
  claims.erase(entry);
  erase_if_empty(record);
}

void Ledger::State::release_all(const PodUid& uid) {
  for (Entry* entry : claims.of(uid)) release(*entry);
}

void Ledger::State::confirm(Claim claim) {
  expectations.end(claim.uid);
  drop_plain(claim.uid);
  const std::vector<Entry*> attempts = claims.of(claim.uid);
  std::optional<ClaimView> only;
  if (attempts.size() == 1) only = attempts.front()->view;
  const std::uint64_t before = releases;
  release_all(claim.uid);
  const ClaimView& now = insert(std::move(claim), Phase::kBound, Instant{}).view;
  // The same hold in the place of another is no news to who waits.
  const bool same = only && only->claim.node == now.claim.node && only->holds == now.holds;
  if (attempts.empty() || same) releases = before;
}

void Ledger::State::set_plain(PlainPod pod) {
  drop_plain(pod.uid);
  NodeRecord& record = record_of(pod.node);
  add_plain(record, pod.host);
  plain.emplace(std::move(pod.uid), Plain{&record, pod.host});
}

void Ledger::State::drop_plain(const PodUid& uid) {
  const auto found = plain.find(uid);
  if (found == plain.end()) return;
  NodeRecord& record = *found->second.home;
  remove_plain(record, found->second.host);
  plain.erase(found);
  erase_if_empty(record);
}

NodeRecord& Ledger::State::record_of(const NodeName& node) {
  NodeRecord* record = by_name.find(node.str());
  return record != nullptr ? *record : make_record(node);
}

NodeRecord& Ledger::State::make_record(const NodeName& node) {
  // Slots in use are those below the number of records that are not free.
  const FreeSlot next{static_cast<std::uint32_t>(nodes.size()), 1};
  const FreeSlot slot = free_slots_.empty() ? next : free_slots_.back();
  if (!free_slots_.empty()) free_slots_.pop_back();
  NodeRecord& record = nodes[node.str()];
  record.slot = slot.slot;
  record.version = slot.version;
  record.node.name = node;
  by_name.insert(node.str(), record);
  return record;
}

void Ledger::State::erase_if_empty(NodeRecord& record) {
  if (!record.empty()) return;
  free_slots_.push_back({record.slot, record.version + 1});
  by_name.erase(record.node.name.str());
  nodes.erase(nodes.find(record.node.name.str()));
}

}  // namespace mgpu::ledger
