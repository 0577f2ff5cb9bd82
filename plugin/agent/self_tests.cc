#include "plugin/agent/self_tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "plugin/containers/limits.h"

namespace mgpu::plugin {
namespace {

using Outcome = SelfTest::Outcome;

std::string line_of(const CardUuid& card, const std::string& identity) {
  return fmt::format("{}\t{}\n", card.str(), identity);
}

void log_result(const CardUuid& card, const SelfTest& result) {
  const std::string outcome(to_string(result.outcome));
  if (result.outcome == Outcome::kPassed) {
    return log_info("self test of the library", {{"card", card.str()}, {"result", outcome}});
  }
  log_warn("self test of the library",
           {{"card", card.str()}, {"result", outcome}, {"reason", result.why}});
}

}  // namespace

std::string SelfTests::problem_of(const CardUuid& card, const std::string& identity,
                                  const Run& run) {
  const auto now = std::chrono::steady_clock::now();
  const MutexLock lock(mutex_);
  Card& known = cards_[card];
  if (known.identity != identity && !known.running && passed_before(card, identity)) {
    known.identity = identity;
    known.result = SelfTest{Outcome::kPassed, ""};
  }
  const bool again = known.result && known.result->outcome != Outcome::kPassed &&
                     now - known.ended >= kSelfTestPeriod;
  const bool due = !known.result || known.identity != identity || again;
  if (due && !known.running && !cancelled_) {
    if (known.thread.joinable()) known.thread.join();
    known.running = true;
    const bool offered = known.result && known.result->outcome != Outcome::kFailed;
    known.thread = std::thread([=, this] { test(card, identity, run, offered); });
  }
  if (!known.result) return std::string(kSelfTestRuns);
  if (known.result->outcome != Outcome::kFailed) return "";
  return "self test of the library: " + known.result->why;
}

void SelfTests::test(const CardUuid& uuid, const std::string& identity, const Run& run,
                     bool offered) {
  SelfTest result;
  {
    const MutexLock turn(turn_);
    if (!cancelled_) result = run(offered, cancelled_);
  }
  if (!cancelled_) log_result(uuid, result);
  const MutexLock lock(mutex_);
  Card& card = cards_[uuid];
  MGPU_DEBUG_CHECK(card.running, "a card is kept while its test runs");
  card.running = false;
  card.ended = std::chrono::steady_clock::now();
  card.identity = identity;
  card.result = std::move(result);
  if (card.result->outcome == Outcome::kPassed) save();
}

bool SelfTests::passed_before(const CardUuid& uuid, const std::string& identity) const {
  const auto text = read_file(file_, kSelfTestsFileBytesMax);
  return text && ("\n" + *text).find("\n" + line_of(uuid, identity)) != std::string::npos;
}

// Without the file the next process tests again.
void SelfTests::save() {
  std::string text;
  for (const auto& [uuid, card] : cards_) {
    if (card.result && card.result->outcome == Outcome::kPassed) {
      text += line_of(uuid, card.identity);
    }
  }
  if (auto saved = write_file(file_, text, Durability::kProcess); !saved) {
    log_warn("the self tests that passed are not saved", {{"problem", saved.error().message}});
  }
}

bool SelfTests::running() const {
  const MutexLock lock(mutex_);
  for (const auto& [uuid, card] : cards_) {
    if (card.running) return true;
  }
  return false;
}

std::map<CardUuid, SelfTest> SelfTests::results() const {
  std::map<CardUuid, SelfTest> results;
  const MutexLock lock(mutex_);
  for (const auto& [uuid, card] : cards_) {
    if (card.result) results.emplace(uuid, *card.result);
  }
  return results;
}

void SelfTests::keep_only(const std::vector<FoundCard>& cards) {
  const MutexLock lock(mutex_);
  for (auto at = cards_.begin(); at != cards_.end();) {
    const bool kept = std::ranges::find(cards, at->first, &FoundCard::uuid) != cards.end();
    if (kept || at->second.running) {
      ++at;
      continue;
    }
    if (at->second.thread.joinable()) at->second.thread.join();
    at = cards_.erase(at);
  }
}

void SelfTests::stop() {
  cancelled_ = true;
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    for (auto& [uuid, card] : cards_) threads.push_back(std::move(card.thread));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

std::string self_test_text(const std::map<CardUuid, SelfTest>& results) {
  std::size_t passed = 0;
  std::string others;
  for (const auto& [card, result] : results) {
    if (result.outcome == Outcome::kPassed) {
      ++passed;
    } else if (others.empty()) {
      const char* const what = result.outcome == Outcome::kFailed ? "failed" : "not tested";
      others = fmt::format("; {}: {} ({})", card.str(), what, result.why);
    }
  }
  if (others.empty()) return "";
  return fmt::format("; the library passed its self test on {} of {} cards{}", passed,
                     results.size(), others);
}

}  // namespace mgpu::plugin
