#include "plugin/share/account.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "plugin/share/look.h"

namespace mgpu::share {
namespace {

// For one call. A try fails only if another operation was completed meanwhile; 73 failures were the
// most that 64 processes saw that do nothing else.
constexpr int kTriesMax = 1000;

constexpr int kWipeOnFork = 18;  // MADV_WIPEONFORK, which headers of older C libraries lack

Slot slot_of(std::uint64_t word) {
  return {.held = static_cast<std::uint32_t>(word),
          .number = static_cast<std::uint32_t>(word >> 32U)};
}

std::uint64_t word_of(const Slot& slot) {
  return std::uint64_t{slot.number} << 32U | slot.held;
}

std::uint64_t added(std::uint64_t amount, std::int64_t delta) {
  const std::int64_t sum = static_cast<std::int64_t>(amount) + delta;
  if (sum < 0) return 0;
  return static_cast<std::uint64_t>(sum) < kUnitsMax ? static_cast<std::uint64_t>(sum) : kUnitsMax;
}

std::uint64_t load(const std::uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// A page that a forked child finds full of zeros.
std::atomic<std::uint32_t>* map_private_page() {
  const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const mapped =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED || madvise(mapped, size, kWipeOnFork) != 0) return nullptr;
  return static_cast<std::atomic<std::uint32_t>*>(mapped);
}

}  // namespace

Operation Operation::make(std::uint64_t total, std::uint32_t number, unsigned slot,
                          std::int64_t delta) {
  return {.low = std::uint64_t{number} << 32U | total,
          .high = static_cast<std::uint64_t>(delta) << 16U | slot};
}

Operation Operation::next(unsigned slot, std::int64_t delta) const {
  return make(added(total(), delta), number() + 1, slot, delta);
}

bool replace(std::uint64_t (&operation)[2], const Operation& expected, const Operation& desired) {
#if defined(__x86_64__)
  std::uint64_t low = expected.low;
  std::uint64_t high = expected.high;
  bool replaced = false;
  // Inline, because the compilers call libatomic for 16 bytes.
  __asm__ __volatile__("lock cmpxchg16b %[word]"
                       : [word] "+m"(operation), "+a"(low), "+d"(high), "=@ccz"(replaced)
                       : "b"(desired.low), "c"(desired.high)
                       : "memory");
  return replaced;
#elif defined(__aarch64__)
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::uint32_t busy = 1;
  // The pair was read as one only if the store succeeds; a difference is a failure in any case.
  while (busy != 0) {
    __asm__ __volatile__("ldaxp %0, %1, %2" : "=&r"(low), "=&r"(high) : "Q"(operation) : "memory");
    if (low != expected.low || high != expected.high) return false;
    __asm__ __volatile__("stlxp %w0, %2, %3, %1"
                         : "=&r"(busy), "=Q"(operation)
                         : "r"(desired.low), "r"(desired.high)
                         : "memory");
  }
  return true;
#else
#error "A compare-and-swap of 16 bytes is needed"
#endif
}

bool complete(UsagePage& page, Operation* last) {
  for (int tries = 0; tries < kTriesMax; ++tries) {
    // C1: in this order, so that C4 or the compare-and-swap finds a pair that never was.
    last->low = load(page.operation[0]);
    last->high = load(page.operation[1]);
    // C2: a page that somebody has overwritten does not lead out of the array.
    if (last->slot() >= kSlots) return true;
    std::atomic<std::uint64_t>& slot = page.slots[last->slot()];
    std::uint64_t seen = slot.load(std::memory_order_acquire);  // C3
    const Slot before = slot_of(seen);
    if (before.number == last->number()) return true;
    // C4: without it, a process that slept since C1 would add an old operation once more.
    if (load(page.operation[0]) != last->low) continue;
    const Slot after = {.held = static_cast<std::uint32_t>(added(before.held, last->delta())),
                        .number = last->number()};
    slot.compare_exchange_strong(seen, word_of(after));  // C5: if it fails, another has done it
    return true;
  }
  return false;
}

bool reap_one(UsagePage& page, const Operation& last, SlotLocks& locks, unsigned own_slot) {
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const Slot seen = slot_of(page.slots[slot].load(std::memory_order_acquire));  // R2
    if (seen.held == 0 || slot == own_slot) continue;
    if (!locks.is_free(slot)) continue;  // R3: asked after R2, see there
    // R4: if it succeeds, nothing has changed since R1, so what is subtracted is a dead process's.
    replace(page.operation, last, last.next(slot, -std::int64_t{seen.held}));
    return true;
  }
  return false;
}

Failure Account::attach(const char* folder, const std::uint8_t (&uuid)[16]) {
  const PagePaths paths(folder);
  std::memcpy(usage_path_, paths.usage, sizeof(usage_path_));
  Failure failure = map_limits(paths.limits, uuid, &limits_);
  if (failure != nullptr) return failure;
  own_ = {};
  failure = take_slot(usage_path_, &own_);  // B1 to B3
  if (failure == nullptr) failure = check_usage(*own_.page, uuid);
  if (failure == nullptr) failure = remove_residue();      // B4
  if (failure == nullptr) attached_ = map_private_page();  // B5
  if (failure == nullptr && attached_ == nullptr) {
    failure = "cannot be used: the kernel lacks MADV_WIPEONFORK";
  }
  if (failure != nullptr) {
    leave_slot(&own_);  // programs try again, and each attempt would take another slot
    return failure;
  }
  owed_ = 0;
  attached_->store(1);
  return nullptr;
}

bool Account::attached() const {
  return attached_ != nullptr && attached_->load(std::memory_order_relaxed) != 0;
}

// What the last process of this slot held. It is subtracted as an operation: a store of 0 would
// leave it in the total.
Failure Account::remove_residue() {
  Operation last;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (!complete(*own_.page, &last)) break;
    const Slot seen = slot_of(own_.page->slots[own_.slot]);
    if (seen.held == 0) return nullptr;
    replace(own_.page->operation, last, last.next(own_.slot, -std::int64_t{seen.held}));
  }
  return "is changed by others all the time";
}

// One operation of this process. Within the limit it is refused if it does not fit.
bool Account::add(std::int64_t units, bool within_limit) {
  UsagePage& page = *own_.page;
  Operation last;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (!complete(page, &last)) return false;  // A1
    const auto limit = static_cast<std::int64_t>(limits_->limit.load(std::memory_order_relaxed));
    const std::int64_t total = static_cast<std::int64_t>(last.total()) + units + overhead();
    if (within_limit && units > 0 && total > limit) {  // A2
      SlotLocks locks(usage_path_, own_.identity);
      if (!reap_one(page, last, locks, own_.slot)) return false;
      continue;
    }
    if (replace(page.operation, last, last.next(own_.slot, units))) return true;  // A3
  }
  return false;
}

// The page of limits is the plugin's: programs can only read it.
std::int64_t Account::overhead() const {
  return static_cast<std::int64_t>(limits_->overhead.load(std::memory_order_relaxed) & kUnitsMax);
}

bool Account::reserve(std::uint64_t bytes) {
  const std::uint64_t units = units_of(bytes);
  if (units > kUnitsMax) return false;
  const std::int64_t owed = owed_.exchange(0);
  if (add(static_cast<std::int64_t>(units) - owed, true)) return true;
  owed_ += owed;
  return false;
}

void Account::charge(std::uint64_t bytes) {
  const std::int64_t units = static_cast<std::int64_t>(units_of(bytes)) - owed_.exchange(0);
  if (units != 0 && !add(units, false)) owed_ -= units;
}

void Account::give_back(std::uint64_t bytes) {
  const std::int64_t units = static_cast<std::int64_t>(units_of(bytes)) + owed_.exchange(0);
  if (units != 0 && !add(-units, false)) owed_ += units;
}

void Account::reap() {
  SlotLocks locks(usage_path_, own_.identity);
  Operation last;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    if (!complete(*own_.page, &last) || !reap_one(*own_.page, last, locks, own_.slot)) return;
  }
}

std::uint64_t Account::limit_bytes() const {
  return limits_->limit.load(std::memory_order_relaxed) * kUnit;
}

std::uint64_t Account::total_bytes() const {
  return total_of(*own_.page) + static_cast<std::uint64_t>(overhead()) * kUnit;
}

std::uint64_t Account::context_bytes() const {
  return limits_->context.load(std::memory_order_relaxed) * kUnit;
}

std::uint64_t Account::own_bytes() const {
  Operation last;
  complete(*own_.page, &last);
  return slot_of(own_.page->slots[own_.slot]).held * kUnit;
}

}  // namespace mgpu::share
