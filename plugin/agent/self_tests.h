// Which cards have passed the self test of the library (self_test.h). A card is tested once for
// each driver and library: what has passed is in a file, so that a plugin that starts again while
// the cards are full knows it.
//
//   Unknown --problem_of()--> Running (not offered)
//   Running --passed--> Passed --driver or library change--> Running, still offered
//           --failed--> Failed (not offered) --kSelfTestPeriod--> Running, still not offered
//           --nothing is known--> Not tested (offered) --kSelfTestPeriod--> Running, still offered
//
// One test runs at a time, since its programs count against the memory limit of the plugin.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "plugin/cards/card_source.h"
#include "plugin/containers/self_test.h"

namespace mgpu::plugin {

// The problem of a card that has no result yet, with which nothing is wrong.
inline constexpr std::string_view kSelfTestRuns = "the self test of the library is running";

// Any thread.
class SelfTests {
 public:
  // `offered`: the card is offered while it is tested, so that pods may get it.
  using Run = std::function<SelfTest(bool offered, const std::atomic<bool>& cancelled)>;

  explicit SelfTests(std::string file) : file_(std::move(file)) {}
  ~SelfTests() { stop(); }
  SelfTests(const SelfTests&) = delete;
  SelfTests& operator=(const SelfTests&) = delete;
  SelfTests(SelfTests&&) = delete;
  SelfTests& operator=(SelfTests&&) = delete;

  // Why the card is not offered; empty: it is. Starts `run` in a thread of its own if the test is
  // due. `identity`: see SelfTestInput.
  std::string problem_of(const CardUuid& card, const std::string& identity, const Run& run);
  bool running() const;
  // The last result of each card.
  std::map<CardUuid, SelfTest> results() const;
  // Forgets the results of all other cards, which are gone.
  void keep_only(const std::vector<FoundCard>& cards);
  // Ends the tests that run. Starts no more.
  void stop();

 private:
  struct Card {
    std::string identity;  // to which the result belongs
    std::optional<SelfTest> result;
    std::chrono::steady_clock::time_point ended;
    bool running = false;
    std::thread thread;
  };

  void test(const CardUuid& uuid, const std::string& identity, const Run& run, bool offered);
  bool passed_before(const CardUuid& uuid, const std::string& identity) const;
  void save() MGPU_REQUIRES(mutex_);

  const std::string file_;
  std::atomic<bool> cancelled_ = false;
  Mutex turn_;  // of the test that runs
  mutable Mutex mutex_;
  std::map<CardUuid, Card> cards_ MGPU_GUARDED_BY(mutex_);
};

// What the condition of the node says of these results: "; the library passed its self test on 7 of
// 8 cards; GPU-5c1a: not tested (pods hold the memory of the card)". Empty: all have passed.
std::string self_test_text(const std::map<CardUuid, SelfTest>& results);

}  // namespace mgpu::plugin
