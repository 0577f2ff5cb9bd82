#include "common/kube/memory/store.h"

#include <algorithm>
#include <utility>

namespace mgpu::kube {
namespace {

using Objects = std::map<std::string, ObjectPtr>;
using Past = std::map<std::string_view, ObjectPtr>;

// Walks the objects as they were: the present ones, with what differed laid over them.
class Snapshot {
 public:
  Snapshot(const Objects& objects, const Past& past, const std::string& start)
      : objects_(objects),
        past_(past),
        object_(objects.upper_bound(start)),
        old_(past.upper_bound(start)) {}

  // None at the end.
  ObjectPtr next() {
    while (object_ != objects_.end() || old_ != past_.end()) {
      ObjectPtr found = step();
      if (found) return found;
    }
    return nullptr;
  }

 private:
  // None: an object that did not exist then.
  ObjectPtr step() {
    const bool has_object = object_ != objects_.end();
    const bool has_old = old_ != past_.end();
    if (!has_old || (has_object && object_->first < old_->first)) return (object_++)->second;
    if (has_object && object_->first == old_->first) ++object_;
    return (old_++)->second;
  }

  const Objects& objects_;
  const Past& past_;
  Objects::const_iterator object_;
  Past::const_iterator old_;
};

}  // namespace

bool ObjectFilter::matches(const StoredObject& object) const {
  return object.key.starts_with(key_prefix) &&
         std::all_of(terms.begin(), terms.end(), [&](const FieldTerm& term) {
           return (object.fields[term.field] == term.value) == term.equal;
         });
}

ObjectPtr Collection::find(const std::string& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second;
}

const StoreEvent& Collection::apply(ObjectPtr after, bool deleted) {
  const auto place = objects_.try_emplace(after->key).first;
  history_.push_back({after->version, std::exchange(place->second, after), after, deleted});
  if (deleted) objects_.erase(place);
  if (history_.size() > history_max_) {
    forgotten_ = history_.front().version;
    history_.pop_front();
  }
  return history_.back();
}

std::deque<StoreEvent>::const_iterator Collection::after(std::uint64_t version) const {
  return std::upper_bound(
      history_.begin(), history_.end(), version,
      [](std::uint64_t wanted, const StoreEvent& event) { return wanted < event.version; });
}

Collection::Past Collection::past(std::uint64_t version) const {
  Past past;
  for (auto event = after(version); event != history_.end(); ++event) {
    past.try_emplace(event->after->key, event->before);
  }
  return past;
}

StorePage Collection::page(const ObjectFilter& filter, std::uint64_t version, std::size_t limit,
                           const std::string& start) const {
  const Past changed = past(version);
  const std::string from = std::max(start, filter.key_prefix);
  Snapshot snapshot(objects_, changed, from);
  StorePage page;
  while (const ObjectPtr object = snapshot.next()) {
    if (!object->key.starts_with(filter.key_prefix)) break;
    if (limit != 0 && page.items.size() == limit) {
      page.more = true;
      break;
    }
    page.last_key = object->key;
    if (filter.matches(*object)) page.items.push_back(object);
  }
  return page;
}

std::size_t Collection::count(const ObjectFilter& filter, std::uint64_t version,
                              const std::string& start) const {
  const Past changed = past(version);
  Snapshot snapshot(objects_, changed, start);
  std::size_t count = 0;
  while (const ObjectPtr object = snapshot.next()) {
    if (!object->key.starts_with(filter.key_prefix)) break;
    ++count;
  }
  return count;
}

void Collection::compact(std::uint64_t version) {
  history_.erase(history_.begin(), after(version));
  forgotten_ = std::max(forgotten_, version);
}

}  // namespace mgpu::kube
