#include "extender/ledger/node_record.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <random>

#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::blocking_claim;
using test::bound_claim;
using test::facts_of;

// A record with two cards, and the entries that were added to it.
struct Kept {
  Kept() {
    record.slots = &slots;
    record.slot = slots.take(record);
    record.node.name = NodeName("n1");
    set_facts(record, facts_of("n1: 0[100/1000] 1[100/1000]"));
  }

  Entry& add(Claim claim) {
    Entry& entry = entries.emplace_back();
    entry.view.claim = std::move(claim);
    extender::add(record, entry);
    return entry;
  }

  NodeSlots slots;
  NodeRecord record;
  std::deque<Entry> entries;
};

TEST(NodeRecord, TotalsHoldAfterEveryChange) {
  Kept kept;
  EXPECT_TRUE(totals_hold(kept.record));
  Entry& share = kept.add(bound_claim("a", "n1", "30/300", "0"));
  Entry& both = kept.add(bound_claim("b", "n1", "wholex2", "0,1"));
  Entry& unknown = kept.add(blocking_claim("c", "n1"));
  Entry& elsewhere = kept.add(bound_claim("d", "n1", "30/300", "7"));
  EXPECT_TRUE(totals_hold(kept.record));
  add_plain(kept.record, {MilliCpu(500), MiB(100)});
  add_expected(kept.record, {{CardIndex(1), {Percent(10), MiB(10)}}});
  EXPECT_TRUE(totals_hold(kept.record));
  remove(unknown);
  remove(both);
  remove_expected(kept.record, {{CardIndex(1), {Percent(10), MiB(10)}}});
  EXPECT_TRUE(totals_hold(kept.record));
  set_facts(kept.record, facts_of("n1: 7[100/1000]"));
  EXPECT_TRUE(totals_hold(kept.record));
  set_absent(kept.record);
  EXPECT_TRUE(totals_hold(kept.record));
  remove(elsewhere);
  remove(share);
  remove_plain(kept.record, {MilliCpu(500), MiB(100)});
  EXPECT_TRUE(totals_hold(kept.record));
  EXPECT_TRUE(kept.record.claims.empty());
}

// Each number that decisions or inspection go by, wrong by the least amount.
TEST(NodeRecord, AWrongTotalIsFound) {
  const struct {
    const char* what;
    std::function<void(NodeRecord&)> spoil;
  } cases[] = {
      {"used too much", [](NodeRecord& r) { r.node.cards[0].used.core += Percent(1); }},
      {"used too little", [](NodeRecord& r) { r.node.cards[0].used.memory -= MiB(1); }},
      {"used by nobody", [](NodeRecord& r) { r.node.cards[1].used.memory += MiB(1); }},
      {"certain", [](NodeRecord& r) { r.node.cards[1].uncertain = true; }},
      {"expected of nobody", [](NodeRecord& r) { r.node.cards[1].expected.core += Percent(1); }},
      {"blocking", [](NodeRecord& r) { ++r.blocking; }},
      {"drifting", [](NodeRecord& r) { ++r.drifting; }},
      {"host amounts", [](NodeRecord& r) { r.node.resources_used.memory += MiB(1); }},
      {"pods by cards", [](NodeRecord& r) { r.node.pods.clear(); }},
      {"a claim of another node", [](NodeRecord& r) { r.claims.front()->home = nullptr; }},
      {"a claim lost", [](NodeRecord& r) { r.claims.clear(); }},
  };
  for (const auto& one : cases) {
    Kept kept;
    kept.add(bound_claim("a", "n1", "30/300", "0"));
    ASSERT_TRUE(totals_hold(kept.record));
    one.spoil(kept.record);
    EXPECT_FALSE(totals_hold(kept.record)) << one.what;
  }
}

TEST(NodeRecordProperty, TotalsHoldHoweverClaimsComeAndGo) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    Kept kept;
    std::vector<Entry*> there;
    for (int step = 0; step < 40; ++step) {
      if (!there.empty() && random() % 3 == 0) {
        const auto at = there.begin() + static_cast<std::ptrdiff_t>(random() % there.size());
        remove(**at);
        there.erase(at);
      } else if (random() % 8 == 0) {
        set_facts(kept.record, facts_of(random() % 2 == 0 ? "n1: 0[100/1000] 1[100/1000]"
                                                          : "n1: 1[100/2000] 3[100/500]"));
      } else {
        const bool unknown = random() % 5 == 0;
        const std::string card = std::to_string(random() % 4);
        there.push_back(&kept.add(unknown ? blocking_claim("u", "n1")
                                          : bound_claim("u", "n1", "30/300", card)));
      }
      ASSERT_TRUE(totals_hold(kept.record));
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
