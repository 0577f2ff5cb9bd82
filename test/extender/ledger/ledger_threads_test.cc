// Concurrent use of one ledger; also run under ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "extender/ledger/ledger.h"
#include "extender/ledger/limits.h"
#include "extender/placement/policy.h"
#include "extender/pricing/price_snapshot.h"
#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

using test::facts_of;
using test::used_text;

void on_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
}

bool assume(Ledger& ledger, const std::string& uid, const char* node, const char* request,
            ClaimId* id = nullptr) {
  const auto answer = ledger.assume(test::unplaced_claim(uid, node, request),
                                    *find_policy("binpack")->card, Instant{});
  const Assumed* assumed = std::get_if<Assumed>(&answer);
  if (assumed != nullptr && id != nullptr) *id = assumed->id;
  return assumed != nullptr;
}

TEST(LedgerThreads, AsManyBindsSucceedAsFit) {
  Ledger ledger;
  ledger.apply_node(facts_of("n1: 0[100/1000]"));
  std::atomic<int> succeeded = 0;
  on_threads(8, [&](int thread) {
    for (int i = 0; i < 20; ++i)
      if (assume(ledger, std::to_string(thread) + "/" + std::to_string(i), "n1", "7/10"))
        ++succeeded;
  });
  EXPECT_EQ(succeeded, 14);  // 14 * 7 = 98
  EXPECT_EQ(used_text(ledger, "n1"), "0=98/140");
}

TEST(LedgerThreads, NoCardIsEverOverfull) {
  Ledger ledger;
  ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
  std::atomic<bool> overfull = false;
  const auto come_and_go = [&](int thread) {
    const std::string uid = std::to_string(thread);
    for (int i = 0; i < 300; ++i) {
      ClaimId id = 0;
      if (!assume(ledger, uid, "n1", thread % 2 == 0 ? "40/400" : "whole", &id)) continue;
      if (i % 3 == 0) {
        ledger.forget(id);
        continue;
      }
      ledger.bound(id, Instant{});
      if (auto seen = ledger.reader().claim({"default", uid}))
        ledger.apply_pod(std::move(seen->claim));
      ledger.remove_pod(PodUid(uid));
    }
  };
  const auto watch = [&](int) {
    for (int i = 0; i < 300; ++i) {
      ledger.reader().read(Instant{}, [&](const View& view) {
        for (const Card& card : view.find("n1")->cards)
          if (!card.used.fits_in(card.capacity)) overfull = true;
      });
      ledger.apply_node(facts_of("n1: 0[100/1000] 1[100/1000]"));
      ledger.reader().counts();
      ledger.reader().drifting();
      ledger.assumed_before(Instant::max());
    }
  };
  on_threads(8, [&](int thread) { thread < 6 ? come_and_go(thread) : watch(thread); });
  EXPECT_FALSE(overfull);
  EXPECT_EQ(used_text(ledger, "n1"), "0=0/0 1=0/0");
  EXPECT_EQ(ledger.reader().counts().assumed, 0u);
}

TEST(LedgerThreads, ScoresArePrewarmedWhileNodesChange) {
  Ledger ledger;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("n" + std::to_string(i));
  for (const std::string& name : names) ledger.apply_node(facts_of(name + ": 0[100/1000]"));
  const std::vector<std::string_view> all(names.begin(), names.end());
  const GpuRequest request = test::request_of("30/300");
  std::vector<PriceSnapshot> price_snapshots(20);
  for (std::size_t i = 0; i < price_snapshots.size(); ++i) price_snapshots[i].version = i + 1;
  std::atomic<const PriceSnapshot*> current = &price_snapshots[0];
  std::atomic<int> fitting = 0;
  const auto context = [&] {
    const PlacementContext context(request, {}, 0, current);
    for (const Scored& one :
         ledger.decisions().score(all, context, *find_policy("spread"), Instant{}))
      fitting += one.fits ? 1 : 0;
  };
  const auto publish = [&] {
    for (const PriceSnapshot& price_snapshot : price_snapshots) {
      ledger.decisions().prewarm_scores(
          price_snapshot, [] { return true; }, [](const auto& computation) { computation(); });
      current = &price_snapshot;
    }
  };
  const auto change = [&](int thread) {
    for (int i = 0; i < 100; ++i) {
      assume(ledger, std::to_string(thread), names[static_cast<std::size_t>(i)].c_str(), "7/10");
      ledger.remove_pod(PodUid(std::to_string(thread)));
      context();
    }
  };
  on_threads(4, [&](int thread) { thread == 0 ? publish() : change(thread); });
  EXPECT_EQ(fitting, 3 * 100 * 100);
}

TEST(LedgerThreads, BindsContinueDuringARelist) {
  Ledger ledger;
  ledger.apply_node(facts_of("n1: 0[100/1000]"));
  std::vector<Claim> listed;
  for (std::size_t i = 0; i < 3 * kRelistStep; ++i)
    listed.push_back(test::bound_claim("l" + std::to_string(i), "n2", "1/1", "0"));
  std::atomic<int> succeeded = 0;
  on_threads(4, [&](int thread) {
    if (thread == 0) {
      ledger.replace_pods(listed);
      return;
    }
    for (int i = 0; i < 20; ++i)
      if (assume(ledger, std::to_string(thread) + "/" + std::to_string(i), "n1", "7/10"))
        ++succeeded;
  });
  EXPECT_EQ(succeeded, 14);
  EXPECT_EQ(ledger.reader().counts().bound, listed.size());
  EXPECT_EQ(ledger.reader().counts().assumed, 14u);
}

}  // namespace
}  // namespace mgpu::extender
