// A fake machine with cards: a file that all its processes map.
//
// Changes are made under a lock of the open file (F_OFD_SETLKW), and each process keeps a lock on
// the byte of its slot. The kernel releases both when the process ends, however it ends, and before
// its parent learns of it. Process IDs would not do: the same number is another process in another
// PID namespace, and soon another one in this. Every user of the machine first clears the slots
// whose locks are gone.
//
// It needs only a C library and the C++ library, because it is part of stand-ins for libraries.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "test/gpu/machine_state.h"

namespace mgpu::fake_gpu {

struct ProcessUse {
  std::uint64_t pid = 0;
  std::uint64_t bytes = 0;  // as NVML shows it
  bool is_mps_client = false;
  unsigned percent = 0;  // of the last sample, in which its kernels ran, in virtual time
};

// What a process calls a share of memory, also to others.
struct SharedMemory {
  int index = -1;
  std::uint64_t id = 0;
};

enum class Account { charged, hidden };

class Machine {
 public:
  // Null if this is not the file of a machine; `why` then says so in a sentence.
  static std::unique_ptr<Machine> open(const std::string& path, std::string& why);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Cards, and after them MIG devices.
  int card_count() const { return count_; }
  // From now on those that a CUDA program has: the first MIG device, or all cards without MIG (MIG
  // User Guide, "CUDA Device Enumeration").
  void enumerate_as_cuda();
  int cuda_version() const { return state_->cuda_version; }
  const char* driver_release() const { return state_->driver_release; }
  const CardState& card(int index) const { return state_->cards[order_[index]]; }
  CardState& card(int index) { return state_->cards[order_[index]]; }
  // -1 if there is none.
  int index_of(const std::string& uuid) const;
  // What leads from a card to another one, as in a scenario; empty: not known.
  std::string link(int card, int other) const;
  // Whether a card, or that of a MIG device, fell off the bus.
  bool is_lost(int card) const;
  // The driver reports it to all who have registered.
  void send_xid(int card, std::uint32_t xid);
  // What programs see as the total.
  std::uint64_t total(int card) const;
  // What ended processes had may still count as used if `enough` is free even so.
  std::uint64_t free(int card, std::uint64_t enough = ~std::uint64_t{0});
  std::vector<ProcessUse> processes(int card);

  // Registers this process. Without it nothing can be taken. Returns false if there are already
  // kProcessesMax. Where the folder of the machine has the node's /proc as "proc", as containers of
  // bench/gpu do, others see its process ID on the node.
  bool join();
  std::uint64_t pid() const;
  void become_mps_client();
  // Whether it has kernels that it has not waited for.
  void set_work(bool has_work);
  // How many clients of MPS have ended with some.
  std::uint64_t broken_clients();
  // Takes memory of a card, unless less is free.
  bool take(int card, std::uint64_t bytes, Account account);
  void give_back(int card, std::uint64_t bytes, Account account);
  // What this process has taken and does not share.
  std::uint64_t taken(int card) const;

  // What NVML has set: lines of a file beside the machine.
  std::string settings_file(const std::string& kind) const { return path_ + "." + kind; }

  // The card runs a kernel of this duration, after all that were launched before and not before
  // `from`. Returns when it ends. Nanoseconds of the monotonic clock.
  std::int64_t occupy(int card, std::int64_t from, std::int64_t duration);

  // --- virtual time: clock.cc ---
  // The clock stands still while a process that uses it does something else than to wait for it. Of
  // its threads, one must wait.

  bool is_virtual() const { return state_->is_virtual != 0; }
  // Nanoseconds.
  std::int64_t clock() const {
    return static_cast<std::int64_t>(state_->clock[state_->step % 2].load());
  }
  // A kernel begins on the card that takes so long with this width. All kernels of this process
  // together have at most the width `limit`. Returns its number, or -1 if too many run.
  int begin_kernel(int card, std::int64_t duration, int width, int limit);
  // Percent of the last whole second in which the card had kernels. In real time, 100 while it has
  // some that are not of clients of MPS.
  unsigned utilization(int card) const;
  // The numbers of those that have ended, which is now.
  std::vector<int> take_ended();
  // Returns when one has ended, or it is that late, or after some milliseconds of real time.
  void wait(std::int64_t until);

  // Memory that this process has taken becomes shared; it stays its holder. Not set if there are
  // already kSharedMax.
  SharedMemory share(int card, std::uint64_t bytes);
  // Becomes a holder of memory that another process shares. Returns its card, or -1 if it is gone.
  int hold(const SharedMemory& shared, std::uint64_t& bytes);
  void drop(const SharedMemory& shared);
  // A file descriptor that stands for shared memory, and holds it as long as any process has it
  // open; negative if there is none.
  int export_file(const SharedMemory& shared);
  // The memory for which a file descriptor stands.
  SharedMemory imported(int file);

  // In the child of a fork, which has nothing of the machine: closes the file, so that the locks
  // of the parent end with the parent. Nothing else may be called afterwards.
  void forget_in_child();
  // For a fork: no thread is within a change.
  std::mutex& mutex() { return mutex_; }

 private:
  // The lock of the machine, for one change. At its beginning nothing of ended processes is left,
  // unless whoever takes it does not need that.
  class Lock {
   public:
    explicit Lock(Machine& machine, bool removes_ended = true);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Machine& machine_;
    const std::lock_guard<std::mutex> guard_;
  };

  Machine(std::string path, int file, MachineState* state);

  std::uint64_t free_locked(int card) const;
  void remove_ended();
  bool is_due(const ProcessState& process) const;
  void let_time_pass();
  bool is_held(int byte) const;
  bool has_holder(const SharedState& shared) const;
  std::span<SharedState> shared_in_use() const {
    return {state_->shared, static_cast<std::size_t>(state_->shared_end)};
  }
  SharedState* find(const SharedMemory& shared);

  const std::string path_;
  int file_;
  MachineState* state_;
  int order_[kDevicesMax] = {};  // of cards, as they are numbered here
  int count_ = 0;
  int slot_ = -1;
  std::mutex mutex_;  // threads of a process share its locks
};

}  // namespace mgpu::fake_gpu
