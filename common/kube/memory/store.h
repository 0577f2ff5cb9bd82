// One collection of the in-memory API server: versions of objects, their history, and lists of any
// moment that history still holds. Knows keys and versions, nothing of JSON. Guarded by its owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/kube/memory/path.h"

namespace mgpu::kube {

// One version of one object, shared by the collection, its history and the watches.
struct StoredObject {
  std::string key;  // "namespace/name", or "name" outside namespaces: lists are in its order
  std::string uid;
  std::uint64_t version = 0;
  std::string text;                 // JSON without kind and apiVersion
  std::vector<std::string> fields;  // metadata.name, metadata.namespace, then ServedKind::fields
};
using ObjectPtr = std::shared_ptr<const StoredObject>;

struct StoreEvent {
  std::uint64_t version;
  ObjectPtr before;  // none: created
  ObjectPtr after;   // of a deletion: the last state, with the version of the deletion
  bool deleted;
};

// Which objects a list or watch sees.
struct ObjectFilter {
  std::string key_prefix;  // "default/"; empty: all
  std::vector<FieldTerm> terms;
  bool matches(const StoredObject& object) const;
};

struct StorePage {
  std::vector<ObjectPtr> items;
  std::string last_key;  // the last one looked at
  bool more = false;     // objects follow that may match
};

class Collection {
 public:
  explicit Collection(std::size_t history_max) : history_max_(history_max) {}

  ObjectPtr find(const std::string& key) const;
  // The next version of an object, or its end. `after->version` is above every one before.
  const StoreEvent& apply(ObjectPtr after, bool deleted);

  // Up to `limit` objects (0: all) after the key `start`, as they were at `version`.
  // REQUIRES: holds(version).
  StorePage page(const ObjectFilter& filter, std::uint64_t version, std::size_t limit,
                 const std::string& start) const;
  // How many objects of the filter's key prefix follow the key `start`. Linear in that number.
  std::size_t count(const ObjectFilter& filter, std::uint64_t version,
                    const std::string& start) const;
  // History after `version`. REQUIRES: holds(version).
  std::deque<StoreEvent>::const_iterator after(std::uint64_t version) const;
  std::deque<StoreEvent>::const_iterator end() const { return history_.end(); }
  // Everything after `version` is still in history.
  bool holds(std::uint64_t version) const { return version >= forgotten_; }
  // Forgets everything up to `version`.
  void compact(std::uint64_t version);

 private:
  // What differs at an earlier version: none = the object did not exist.
  using Past = std::map<std::string_view, ObjectPtr>;
  Past past(std::uint64_t version) const;

  std::size_t history_max_;
  std::map<std::string, ObjectPtr> objects_;
  std::deque<StoreEvent> history_;  // by version
  std::uint64_t forgotten_ = 0;     // the newest version no longer in history
};

}  // namespace mgpu::kube
