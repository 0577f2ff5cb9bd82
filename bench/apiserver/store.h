// One collection of the in-memory API server: the objects, the history of their versions, and lists
// of any version that the history still holds. It does not read JSON. It is protected by its
// owner's mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/apiserver/path.h"

namespace mgpu::kube {

// One version of one object, shared by the collection, its history and the watches.
struct StoredObject {
  // "namespace/name", or "name" of a cluster-scoped object. Lists are sorted by it.
  std::string key;
  std::string uid;
  std::uint64_t version = 0;
  std::string text;                 // JSON without kind and apiVersion
  std::vector<std::string> fields;  // the values of ServedKind::fields
};
using ObjectPtr = std::shared_ptr<const StoredObject>;

struct StoreEvent {
  std::uint64_t version;
  ObjectPtr before;  // null: the object was created
  ObjectPtr after;   // of a deletion: the last state, with the version of the deletion
  bool deleted;
};

// Which objects a list or watch returns.
struct ObjectFilter {
  std::string key_prefix;  // "default/"; empty: all
  std::vector<FieldTerm> terms;
  bool matches(const StoredObject& object) const;
};

struct StorePage {
  std::vector<ObjectPtr> items;
  std::string last_key;       // of the last object that was compared with the filter
  std::size_t remaining = 0;  // objects with the filter's key prefix that follow
};

class Collection {
 public:
  explicit Collection(std::size_t history_max) : history_max_(history_max) {}

  ObjectPtr find(const std::string& key) const;
  // Stores the next version of an object, or its deletion. `after->version` is higher than every
  // version before.
  const StoreEvent& apply(ObjectPtr after, bool deleted);

  // Up to `limit` objects (0: all) after the key `start`, as they were at `version`. It takes time
  // linear in the number of objects. REQUIRES: holds(version).
  StorePage page(const ObjectFilter& filter, std::uint64_t version, std::size_t limit,
                 const std::string& start) const;
  // History after `version`. REQUIRES: holds(version).
  std::deque<StoreEvent>::const_iterator after(std::uint64_t version) const;
  std::deque<StoreEvent>::const_iterator end() const { return history_.end(); }
  // True when the history has every event after `version`.
  bool holds(std::uint64_t version) const { return version >= compacted_; }
  // Removes every event up to `version` from the history.
  void compact(std::uint64_t version);

 private:
  std::size_t history_max_;
  std::map<std::string, ObjectPtr> objects_;
  std::deque<StoreEvent> history_;  // in order of version
  std::uint64_t compacted_ = 0;     // the newest version that is no longer in the history
};

}  // namespace mgpu::kube
