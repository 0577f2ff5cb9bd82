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
using test::drifting_claim;
using test::facts_of;

// A record with two cards, and the entries that were added to it.
struct Fixture {
  Fixture() {
    record.index = &index;
    record.slot = index.insert("n1", record);
    record.node.name = NodeName("n1");
    set_facts(record, facts_of("n1: 0[100/1000] 1[100/1000]"));
  }

  Entry& add(Claim claim) {
    Entry& entry = entries.emplace_back();
    entry.view.claim = std::move(claim);
    extender::add(record, entry);
    return entry;
  }

  NodeIndex index;
  NodeRecord record;
  std::deque<Entry> entries;
};

TEST(NodeRecord, TotalsAreConsistentAfterEveryChange) {
  Fixture fixture;
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  Entry& share = fixture.add(bound_claim("a", "n1", "30/300", "0"));
  Entry& both = fixture.add(bound_claim("b", "n1", "wholex2", "0,1"));
  Entry& unknown = fixture.add(blocking_claim("c", "n1"));
  Entry& drifting = fixture.add(drifting_claim("e", "n1", "20/2000"));
  Entry& elsewhere = fixture.add(bound_claim("d", "n1", "30/300", "7"));
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  add_non_gpu(fixture.record, {MilliCpu(500), MiB(100)});
  add_expected(fixture.record, {{CardIndex(1), {Percent(10), MiB(10)}}});
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  remove(unknown);
  remove(drifting);
  remove(both);
  remove_expected(fixture.record, {{CardIndex(1), {Percent(10), MiB(10)}}});
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  set_facts(fixture.record, facts_of("n1: 7[100/1000]"));
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  set_absent(fixture.record);
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  remove(elsewhere);
  remove(share);
  remove_non_gpu(fixture.record, {MilliCpu(500), MiB(100)});
  EXPECT_TRUE(totals_are_consistent(fixture.record));
  EXPECT_TRUE(fixture.record.claims.empty());
}

// Each number that decisions or inspection use, wrong by the smallest amount.
TEST(NodeRecord, AWrongTotalIsFound) {
  const struct {
    const char* what;
    std::function<void(NodeRecord&)> spoil;
  } cases[] = {
      {"used too much", [](NodeRecord& r) { r.node.cards[0].used.core += Percent(1); }},
      {"used too little", [](NodeRecord& r) { r.node.cards[0].used.memory -= MiB(1); }},
      {"used without a claim", [](NodeRecord& r) { r.node.cards[1].used.memory += MiB(1); }},
      {"uncertain", [](NodeRecord& r) { r.node.cards[1].uncertain = true; }},
      {"expected without a pod",
       [](NodeRecord& r) { r.node.cards[1].expected.core += Percent(1); }},
      {"blocking", [](NodeRecord& r) { ++r.blocking; }},
      {"drifting", [](NodeRecord& r) { ++r.drifting; }},
      {"node resources", [](NodeRecord& r) { r.node.resources_used.memory += MiB(1); }},
      {"number of pods", [](NodeRecord& r) { ++r.node.pods_counted; }},
      {"a claim of another node", [](NodeRecord& r) { r.claims.front()->record = nullptr; }},
      {"a claim lost", [](NodeRecord& r) { r.claims.clear(); }},
  };
  for (const auto& one : cases) {
    Fixture fixture;
    fixture.add(bound_claim("a", "n1", "30/300", "0"));
    ASSERT_TRUE(totals_are_consistent(fixture.record));
    one.spoil(fixture.record);
    EXPECT_FALSE(totals_are_consistent(fixture.record)) << one.what;
  }
}

TEST(NodeRecordProperty, TotalsAreConsistentAfterRandomChanges) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    Fixture fixture;
    std::vector<Entry*> there;
    for (int step = 0; step < 40; ++step) {
      if (!there.empty() && random() % 3 == 0) {
        const auto at = there.begin() + static_cast<std::ptrdiff_t>(random() % there.size());
        remove(**at);
        there.erase(at);
      } else if (random() % 8 == 0) {
        set_facts(fixture.record, facts_of(random() % 2 == 0 ? "n1: 0[100/1000] 1[100/1000]"
                                                             : "n1: 1[100/2000] 3[100/500]"));
      } else {
        const bool unknown = random() % 5 == 0;
        const std::string card = std::to_string(random() % 4);
        const Claim drifting =
            random() % 2 == 0 ? blocking_claim("u", "n1") : drifting_claim("u", "n1", "60/800");
        there.push_back(&fixture.add(unknown ? drifting : bound_claim("u", "n1", "30/300", card)));
      }
      ASSERT_TRUE(totals_are_consistent(fixture.record));
    }
  }
}

}  // namespace
}  // namespace mgpu::extender
