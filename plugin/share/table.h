// A table from a key to a value without the C++ library, and the lock for it. A call of the driver
// that takes or frees memory takes microseconds, so that one lock for all threads of a process is
// enough. It is private to the process: nothing waits for another process. Tools have callbacks in
// functions of the driver, which may come back here in the same thread: the locks are recursive,
// and what was found before a call of the driver is looked up again after it.
#pragma once

#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace mgpu::share {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  Lock(Lock&&) = delete;
  Lock& operator=(Lock&&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// Keys are not 0. Values are trivial. Open addressing, at most half full.
template <class Value>
class Table {
 public:
  Value* find(std::uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    Entry& entry = entries_[place_of(key)];
    return entry.key == key ? &entry.value : nullptr;
  }

  // The value of the key, new and zero if there was none. Null: no memory.
  Value* insert(std::uint64_t key) {
    if (key == 0 || (2 * (size_ + 1) > capacity_ && !grow())) return nullptr;
    Entry& entry = entries_[place_of(key)];
    if (entry.key != key) {
      entry = {key, Value{}};
      ++size_;
    }
    return &entry.value;
  }

  void erase(std::uint64_t key) {
    if (find(key) == nullptr) return;
    std::size_t hole = place_of(key);
    entries_[hole] = {};
    --size_;
    // What would not be found behind the hole moves into it.
    for (std::size_t at = next(hole); entries_[at].key != 0; at = next(at)) {
      const Entry moved = entries_[at];
      entries_[at] = {};
      entries_[place_of(moved.key)] = moved;
    }
  }

  std::size_t size() const { return size_; }

  void clear() {
    for (std::size_t i = 0; i < capacity_; ++i) entries_[i] = {};
    size_ = 0;
  }

  // Erases the entries for which `ends(key, value)` is true.
  template <class Ends>
  void erase_if(Ends ends) {
    for (std::size_t i = 0; i < capacity_;) {
      Entry& entry = entries_[i];
      // Another one may move to the place of one that is erased.
      if (entry.key != 0 && ends(entry.key, entry.value)) {
        erase(std::uint64_t{entry.key});
      } else {
        ++i;
      }
    }
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].key != 0) visit(entries_[i].key, entries_[i].value);
    }
  }

 private:
  struct Entry {
    std::uint64_t key;
    Value value;
  };

  std::size_t next(std::size_t place) const { return (place + 1) & (capacity_ - 1); }

  std::size_t place_of(std::uint64_t key) const {
    std::size_t place = (key * 0x9e3779b97f4a7c15U >> 20U) & (capacity_ - 1);
    while (entries_[place].key != 0 && entries_[place].key != key) place = next(place);
    return place;
  }

  bool grow() {
    const std::size_t capacity = capacity_ == 0 ? 256 : 2 * capacity_;
    void* const memory = mmap(nullptr, capacity * sizeof(Entry), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    Entry* const old = entries_;
    const std::size_t old_capacity = capacity_;
    entries_ = static_cast<Entry*>(memory);
    capacity_ = capacity;
    for (std::size_t i = 0; i < old_capacity; ++i) {
      if (old[i].key != 0) entries_[place_of(old[i].key)] = old[i];
    }
    if (old != nullptr) munmap(old, old_capacity * sizeof(Entry));
    return true;
  }

  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mgpu::share
