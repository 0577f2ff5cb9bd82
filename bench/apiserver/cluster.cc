#include "bench/apiserver/cluster.h"

#include <fmt/format.h>

#include <utility>

#include "bench/apiserver/object.h"
#include "common/base/utc_text.h"

namespace mgpu::kube {
namespace {

// The object as it was, with the version of the event since which it does not match.
ObjectPtr with_version(const StoredObject& object, std::uint64_t version) {
  Json json = Json::parse(object.text);
  json["metadata"]["resourceVersion"] = std::to_string(version);
  auto copy = std::make_shared<StoredObject>(object);
  copy->version = version;
  copy->text = json.dump();
  return copy;
}

}  // namespace

void WatchQueue::offer(const StoreEvent& event) {
  const bool before = event.before && filter_.matches(*event.before);
  const bool after = !event.deleted && filter_.matches(*event.after);
  if (after) return add(before ? "MODIFIED" : "ADDED", event.after);
  if (!before) return;
  add("DELETED", event.deleted ? event.after : with_version(*event.before, event.version));
}

void WatchQueue::add(std::string_view type, ObjectPtr object) {
  entries_.push_back({type, std::move(object)});
  if (entries_.size() == 1) on_first_();
}

MemoryCluster::MemoryCluster(Executor& executor, std::size_t history_events,
                             std::chrono::sys_seconds start)
    : executor_(executor),
      started_(executor.now()),
      start_(start),
      collections_(served_kinds().size(), Collection(history_events)),
      queues_(served_kinds().size()) {}

ObjectPtr MemoryCluster::commit(std::size_t kind, Json& object, bool deleted) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  auto stored =
      std::make_shared<const StoredObject>(to_stored(served_kinds()[kind], object, version_));
  const StoreEvent event = collections_[kind].apply(stored, deleted);
  std::erase_if(queues_[kind], [&](const std::weak_ptr<WatchQueue>& weak) {
    const auto queue = weak.lock();
    if (queue) queue->offer(event);
    return !queue;
  });
  return stored;
}

bool MemoryCluster::attach(std::size_t kind, const std::shared_ptr<WatchQueue>& queue,
                           std::optional<std::uint64_t> version) {
  const Collection& collection = collections_[kind];
  if (version && !collection.holds(*version)) return false;
  if (!version) {
    auto page = collection.page(queue->filter(), version_, 0, "");
    for (auto& object : page.items) queue->add("ADDED", std::move(object));
  } else {
    for (auto event = collection.after(*version); event != collection.end(); ++event) {
      queue->offer(*event);
    }
  }
  queues_[kind].push_back(queue);
  return true;
}

void MemoryCluster::compact() {
  for (auto& collection : collections_) collection.compact(version_);
}

std::string MemoryCluster::new_uid() {
  const auto random = static_cast<std::uint32_t>(executor_.random() * 0x1p32);
  return fmt::format("{:08x}-0000-4000-8000-{:012x}", random, ++uids_);
}

std::string MemoryCluster::timestamp(std::chrono::seconds later) const {
  const auto passed = std::chrono::floor<std::chrono::seconds>(executor_.now() - started_);
  return utc_text(start_ + passed + later);
}

}  // namespace mgpu::kube
