// Who uses which slot of a page, by locks of the kernel on bytes of its file. A lock belongs to a
// mapping, so it ends with the process however that ends, and no descriptor can be closed by
// mistake. A forked child keeps "memory", because it keeps the driver's files open, and not "runs".
#pragma once

#include "plugin/share/page.h"

namespace mgpu::share {

enum class SlotLock { kRuns, kMemory };

// Which file a mapping belongs to: a file that somebody has put in its place answers for nobody.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};
bool identify(int file, FileIdentity* identity);

// Asks about the locks of others. It opens the file anew at the first question, since one
// description never sees its own locks.
class SlotLocks {
 public:
  SlotLocks(const char* path, const FileIdentity& identity) : path_(path), identity_(identity) {}
  ~SlotLocks();
  SlotLocks(const SlotLocks&) = delete;
  SlotLocks& operator=(const SlotLocks&) = delete;
  SlotLocks(SlotLocks&&) = delete;
  SlotLocks& operator=(SlotLocks&&) = delete;

  // Both are false if that cannot be known.
  bool is_free(SlotLock lock, unsigned slot);
  bool is_held(SlotLock lock, unsigned slot);

 private:
  bool ask(SlotLock lock, unsigned slot, short* type);
  bool open_file();

  const char* path_;
  FileIdentity identity_;
  int file_ = -1;
};

// A slot of this process, and the mappings that keep it. An account that is attached keeps them
// until the process ends.
struct OwnSlot {
  unsigned slot = kNoSlot;
  UsagePage* page = nullptr;
  void* runs = nullptr;
  FileIdentity identity;
};

// Takes a slot. With `only_empty` one in which nothing is held, for pages where only the plugin
// reaps.
Failure take_slot(const char* path, bool only_empty, OwnSlot* own);
// Gives the slot back, also one that was taken in part.
void leave_slot(OwnSlot* own);

}  // namespace mgpu::share
