#include "bench/apiserver/store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace mgpu::kube {
namespace {

ObjectPtr object(const std::string& key, std::uint64_t version) {
  StoredObject object;
  object.key = key;
  object.version = version;
  object.fields = {key.substr(key.find('/') + 1), key.substr(0, key.find('/'))};
  return std::make_shared<const StoredObject>(std::move(object));
}

using State = std::map<std::string, std::uint64_t>;  // key -> version

State state_of(const std::vector<ObjectPtr>& items) {
  State state;
  for (const auto& item : items) state[item->key] = item->version;
  return state;
}

// Writes random objects and keeps every state.
struct RandomWrites {
  explicit RandomWrites(std::uint32_t seed) : random(seed) {}

  void write(Collection& collection) {
    const std::string key =
        "s" + std::to_string(random() % 3) + "/p" + std::to_string(random() % 8);
    const bool deleted = collection.find(key) && random() % 3 == 0;
    ++version;
    collection.apply(object(key, version), deleted);
    State next = states.rbegin()->second;
    next[key] = version;
    if (deleted) next.erase(key);
    states[version] = next;
  }

  std::mt19937 random;
  std::uint64_t version = 1;
  std::map<std::uint64_t, State> states{{1, {}}};
};

State within(const State& state, const std::string& prefix) {
  State part;
  for (const auto& [key, version] : state) {
    if (key.starts_with(prefix)) part[key] = version;
  }
  return part;
}

TEST(MemoryStore, PagesOfEveryVersionInHistoryShowThatState) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    Collection collection(1000);
    RandomWrites writes(seed);
    for (int i = 0; i < 60; ++i) writes.write(collection);
    for (const auto& [version, expected] : writes.states) {
      const ObjectFilter filter{writes.random() % 2 == 0 ? "" : "s1/", {}};
      const std::size_t limit = 1 + writes.random() % 5;
      std::vector<ObjectPtr> all;
      StorePage page;
      do {
        page = collection.page(filter, version, limit, page.last_key);
        EXPECT_LE(page.items.size(), limit);
        all.insert(all.end(), page.items.begin(), page.items.end());
        EXPECT_EQ(all.size() + page.remaining, within(expected, filter.key_prefix).size());
      } while (page.remaining > 0);
      EXPECT_EQ(state_of(all), within(expected, filter.key_prefix)) << "seed " << seed;
      EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                                 [](const auto& a, const auto& b) { return a->key < b->key; }));
    }
  }
}

TEST(MemoryStore, EventsAfterAVersionLeadFromThatStateToTheNewest) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    Collection collection(1000);
    RandomWrites writes(seed);
    for (int i = 0; i < 60; ++i) writes.write(collection);
    for (auto [version, state] : writes.states) {
      for (auto event = collection.after(version); event != collection.end(); ++event) {
        EXPECT_EQ(event->before != nullptr, state.contains(event->after->key));
        state[event->after->key] = event->version;
        if (event->deleted) state.erase(event->after->key);
      }
      EXPECT_EQ(state, writes.states.rbegin()->second) << "seed " << seed;
    }
  }
}

TEST(MemoryStore, HoldsTheVersionsThatHistoryReaches) {
  Collection collection(3);
  for (std::uint64_t version = 2; version <= 6; ++version) {
    collection.apply(object("s/p" + std::to_string(version), version), false);
  }
  EXPECT_FALSE(collection.holds(2));
  EXPECT_TRUE(collection.holds(3));
  collection.compact(5);
  EXPECT_FALSE(collection.holds(4));
  EXPECT_TRUE(collection.holds(5));
  EXPECT_EQ(collection.end() - collection.after(5), 1);
}

}  // namespace
}  // namespace mgpu::kube
