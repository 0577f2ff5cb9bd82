// Who uses which slot of a page, by locks of the kernel on bytes of its file. A lock belongs to a
// mapping, so it ends with the process however that ends, and no descriptor can be closed by
// mistake. A forked child keeps it, because it keeps the driver's files open.
#pragma once

#include "plugin/share/page.h"

namespace mgpu::share {

// The file that a mapping belongs to. A file that has replaced it has no locks of these processes.
struct MappedFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};
bool identify(int file, MappedFile* identity);

// Asks about the locks of others. It opens the file anew at the first question, since one
// description never sees its own locks.
class SlotLocks {
 public:
  SlotLocks(const char* path, const MappedFile& identity) : path_(path), identity_(identity) {}
  ~SlotLocks();
  SlotLocks(const SlotLocks&) = delete;
  SlotLocks& operator=(const SlotLocks&) = delete;
  SlotLocks(SlotLocks&&) = delete;
  SlotLocks& operator=(SlotLocks&&) = delete;

  // Both are false if that cannot be known.
  bool is_free(unsigned slot);
  bool is_held(unsigned slot);

 private:
  bool ask(unsigned slot, short* type);
  bool open_file();

  const char* path_;
  MappedFile identity_;
  int file_ = -1;
};

// A slot of this process, and the mapping that keeps it. An account that is attached keeps it until
// the process ends.
struct OwnSlot {
  unsigned slot = kNoSlot;
  UsagePage* page = nullptr;
  MappedFile identity;
};

Failure take_slot(const char* path, OwnSlot* own);
// Gives the slot back, also one that was taken in part.
void leave_slot(OwnSlot* own);

}  // namespace mgpu::share
