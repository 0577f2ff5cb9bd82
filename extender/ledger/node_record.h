// A node as the ledger keeps it: its cards with running totals, and the claims on it. Part of the
// ledger; used under its lock.
//
//   card.used      = sum of the claims' holds on it
//   card.expected  = sum of the expectations on it (expectations.h)
//   card.uncertain = some claim of the node names no cards
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "extender/ledger/ledger.h"
#include "extender/ledger/node_slots.h"

namespace mgpu::extender {

struct NodeRecord;

// One claim, at a fixed address for as long as it lives.
struct Entry {
  ClaimId id = 0;
  ClaimView view;
  Instant touched{};  // of an assumed claim: when its outcome was last looked for
  NodeRecord* home = nullptr;
};

struct NodeRecord {
  NodeSlots* slots = nullptr;  // never null once the ledger has it
  NodeSlot slot = 0;
  Node node;
  // False: the API server has no such node, and only its pods keep the record here.
  bool present = false;
  std::string problem;         // NodeFacts::problem
  std::vector<Entry*> claims;  // in order of arrival
  std::size_t blocking = 0;    // of them: their cards are not known
  std::size_t drifting = 0;    // of them: their drift is not kNone
  std::size_t expectations = 0;
  std::size_t plain = 0;  // pods that ask for no cards

  // Of what a decision may go by.
  void changed() { slots->changed(slot); }
  bool worth_showing() const { return present || !claims.empty(); }
  bool empty() const { return !worth_showing() && plain == 0; }
};

// True where the cards differ from what stands there, or where the node was not present.
bool changes(const NodeRecord& record, const NodeFacts& facts);
// Takes the cards over and counts every claim anew. REQUIRES: no expectations on the node.
void set_facts(NodeRecord& record, NodeFacts facts);
// Drops the cards and keeps the claims, to be counted again should the node come back. REQUIRES: no
// expectations on the node.
void set_absent(NodeRecord& record);

// Entry::home leads to the record from add until remove.
void add(NodeRecord& record, Entry& entry);
void remove(Entry& entry);

void add_plain(NodeRecord& record, const NodeResources& host);
void remove_plain(NodeRecord& record, const NodeResources& host);

void add_expected(NodeRecord& record, const std::vector<CardHold>& holds);
void remove_expected(NodeRecord& record, const std::vector<CardHold>& holds);

// Whether the totals above, counted anew from the claims, are those that stand there, and the
// record's other counts with them. In time of the node's claims and cards; for checks.
bool totals_hold(const NodeRecord& record);

// Cards with more used than they have.
std::size_t overfull_cards(const NodeRecord& record);

}  // namespace mgpu::extender
