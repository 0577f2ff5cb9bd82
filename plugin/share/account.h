// The account of memory that all processes of a container share, without a lock: no process waits
// for another, and one that is killed between any two instructions leaves an account that is exact.
//
// The word that is changed by compare-and-swap contains its own last operation. One step reserves
// and records who has reserved; whoever changes the word next first copies that operation into the
// slot that it names. Who has ended is answered by the kernel (slot_locks.h).
// test/plugin/share/accounting_model.cc searches all interleavings of these steps, whose names (A1,
// C1, R1, B1 ...) are the same there.
#pragma once

#include <atomic>
#include <cstdint>

#include "plugin/share/page.h"
#include "plugin/share/slot_locks.h"

namespace mgpu::share {

// The content of UsagePage::operation.
struct Operation {
  std::uint64_t low = 0;   // total: 32 bits, number: 32 bits
  std::uint64_t high = 0;  // slot: 16 bits, delta: 48 bits, signed

  static Operation make(std::uint64_t total, std::uint32_t number, unsigned slot,
                        std::int64_t delta);
  std::uint64_t total() const { return low & 0xffffffff; }
  std::uint32_t number() const { return static_cast<std::uint32_t>(low >> 32U); }
  unsigned slot() const { return static_cast<unsigned>(high & 0xffff); }
  std::int64_t delta() const { return static_cast<std::int64_t>(high) >> 16; }
  // The operation after this one, which adds `delta` for `slot`. The total does not go below 0.
  Operation next(unsigned slot, std::int64_t delta) const;
};

// The content of UsagePage::slots: what is held, and the number of the last operation that is
// counted.
struct Slot {
  std::uint32_t held = 0;
  std::uint32_t number = 0;
};

// One try to replace an operation. `expected` may have been read in two halves.
bool replace(std::uint64_t (&operation)[2], const Operation& expected, const Operation& desired);

// complete(): reads the operation and copies it into its slot. False if others were faster too
// often.
bool complete(UsagePage& page, Operation* last);

// Subtracts what one slot holds whose process has ended; one step of a look. False: there is none.
bool reap_one(UsagePage& page, const Operation& last, SlotLocks& locks, unsigned own_slot);

class Account {
 public:
  // Takes a slot, at the first cuInit of a process. A forked child is not attached, and attaches
  // for itself.
  Failure attach(const char* folder, const std::uint8_t (&uuid)[16]);
  bool attached() const;
  unsigned slot() const { return own_.slot; }

  // Reserves before the driver's call. Returns false if it does not fit.
  bool reserve(std::uint64_t bytes);
  // What the driver has taken without asking. It counts in any case, and nothing more is granted
  // over the limit.
  void charge(std::uint64_t bytes);
  // Gives back after the driver has freed.
  void give_back(std::uint64_t bytes);

  // Takes back what processes held that have ended, as a reservation does that does not fit.
  void reap();

  std::uint64_t limit_bytes() const;
  // Returns all that is reserved, with what the plugin has found that no process has reserved
  // (LimitsPage::overhead).
  std::uint64_t total_bytes() const;
  std::uint64_t context_bytes() const;
  // What is held in the slot of this process, after its last operation was copied.
  std::uint64_t own_bytes() const;

 private:
  std::int64_t overhead() const;
  bool add(std::int64_t units, bool within_limit);
  Failure remove_residue();

  char usage_path_[kPathMax] = {};
  const LimitsPage* limits_ = nullptr;
  OwnSlot own_;
  // In a page of its own, which a forked child finds empty.
  std::atomic<std::uint32_t>* attached_ = nullptr;
  // What could not be given back because others were faster too often; part of the next operation.
  std::atomic<std::int64_t> owed_ = 0;
};

}  // namespace mgpu::share
