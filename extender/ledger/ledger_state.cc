#include "extender/ledger/ledger_state.h"

#include <optional>
#include <utility>
#include <vector>

namespace mgpu::extender {

NodeRecord* Ledger::State::find(std::string_view node) {
  const auto slot = by_name.find(node);
  return slot ? slots.record(*slot) : nullptr;
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
  extender::remove(entry);
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

void Ledger::State::set_plain(NonGpuPod pod) {
  drop_plain(pod.uid);
  NodeRecord& record = record_of(pod.node);
  add_plain(record, pod.host);
  plain.emplace(std::move(pod.uid), NonGpu{&record, pod.host});
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
  NodeRecord* record = find(node.str());
  return record != nullptr ? *record : make_record(node);
}

NodeRecord& Ledger::State::make_record(const NodeName& node) {
  NodeRecord& record = nodes[node.str()];
  record.slots = &slots;
  record.slot = slots.take(record);
  record.node.name = node;
  by_name.insert(node.str(), record.slot);
  return record;
}

void Ledger::State::erase_if_empty(NodeRecord& record) {
  if (!record.empty()) return;
  slots.give_back(record.slot);
  by_name.erase(record.node.name.str());
  nodes.erase(nodes.find(record.node.name.str()));
}

}  // namespace mgpu::extender
