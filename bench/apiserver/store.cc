#include "bench/apiserver/store.h"

#include <algorithm>
#include <utility>

namespace mgpu::kube {

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
    compacted_ = history_.front().version;
    history_.pop_front();
  }
  return history_.back();
}

std::deque<StoreEvent>::const_iterator Collection::after(std::uint64_t version) const {
  return std::upper_bound(
      history_.begin(), history_.end(), version,
      [](std::uint64_t wanted, const StoreEvent& event) { return wanted < event.version; });
}

StorePage Collection::page(const ObjectFilter& filter, std::uint64_t version, std::size_t limit,
                           const std::string& start) const {
  // An older version is the present with the later events undone, the newest first.
  const auto later = after(version);
  const bool newest = later == history_.end();
  std::map<std::string, ObjectPtr> past;
  if (!newest) past = objects_;
  for (auto event = history_.end(); event != later;) {
    --event;
    if (event->before) {
      past[event->after->key] = event->before;
    } else {
      past.erase(event->after->key);
    }
  }
  const auto& objects = newest ? objects_ : past;
  StorePage page;
  for (auto at = objects.upper_bound(std::max(start, filter.key_prefix));
       at != objects.end() && at->first.starts_with(filter.key_prefix); ++at) {
    if (limit != 0 && page.items.size() == limit) {
      ++page.remaining;
      continue;
    }
    page.last_key = at->first;
    if (filter.matches(*at->second)) page.items.push_back(at->second);
  }
  return page;
}

void Collection::compact(std::uint64_t version) {
  history_.erase(history_.begin(), after(version));
  compacted_ = std::max(compacted_, version);
}

}  // namespace mgpu::kube
