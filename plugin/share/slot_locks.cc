#include "plugin/share/slot_locks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace mgpu::share {
namespace {

// Locks of the other kinds belong to a process and end at any close of the file, see fcntl(2).
constexpr int kAskLock = 36;  // F_OFD_GETLK, which headers of older C libraries lack
constexpr int kSetLock = 37;  // F_OFD_SETLK

struct flock byte_of(SlotLock lock, unsigned slot, short type) {
  struct flock range;
  std::memset(&range, 0, sizeof(range));
  range.l_type = type;
  range.l_whence = SEEK_SET;
  // Behind the end of the file, where nobody reads or writes.
  range.l_start = (off_t{1} << (lock == SlotLock::kRuns ? 32 : 33)) + off_t(slot);
  range.l_len = 1;
  return range;
}

bool set_lock(int file, SlotLock lock, unsigned slot, short type) {
  struct flock range = byte_of(lock, slot, type);
  return fcntl(file, kSetLock, &range) == 0;
}

int open_page(const char* path) {
  return open(path, O_RDWR | O_CLOEXEC);
}

// Two descriptions of the file while a slot is taken. What is locked on them stays with their
// mappings.
struct Descriptions {
  explicit Descriptions(const char* path) : runs(open_page(path)), memory(open_page(path)) {}
  ~Descriptions() {
    if (runs >= 0) close(runs);
    if (memory >= 0) close(memory);
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;
  Descriptions(Descriptions&&) = delete;
  Descriptions& operator=(Descriptions&&) = delete;

  int runs;
  int memory;
};

bool lock_slot(const Descriptions& files, unsigned slot) {
  if (!set_lock(files.runs, SlotLock::kRuns, slot, F_WRLCK)) return false;
  if (set_lock(files.memory, SlotLock::kMemory, slot, F_WRLCK)) return true;
  set_lock(files.runs, SlotLock::kRuns, slot, F_UNLCK);
  return false;
}

void unlock_slot(const Descriptions& files, unsigned slot) {
  set_lock(files.memory, SlotLock::kMemory, slot, F_UNLCK);
  set_lock(files.runs, SlotLock::kRuns, slot, F_UNLCK);
}

bool holds_nothing(const UsagePage& page, unsigned slot) {
  const bool last = (page.operation[1] & 0xffff) == slot;  // may not be in the slot yet
  return !last && (page.slots[slot] & 0xffffffff) == 0;
}

unsigned find_slot(const Descriptions& files, const UsagePage& page, bool only_empty) {
  for (unsigned slot = 0; slot < kPluginSlot; ++slot) {
    if (!lock_slot(files, slot)) continue;
    if (!only_empty || holds_nothing(page, slot)) return slot;
    unlock_slot(files, slot);
  }
  return kNoSlot;
}

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// The mapping that says that this process runs: not inherited by forked children.
bool map_runs(int file, OwnSlot* own) {
  void* const mapped = mmap(nullptr, page_bytes(), PROT_NONE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return false;
  own->runs = mapped;
  return madvise(mapped, page_bytes(), MADV_DONTFORK) == 0;
}

}  // namespace

// fstat() itself has a symbol version of glibc 2.33.
bool identify(int file, FileIdentity* identity) {
  struct stat status;
  if (syscall(SYS_fstat, file, &status) != 0) return false;
  *identity = {.device = status.st_dev, .inode = status.st_ino};
  return true;
}

SlotLocks::~SlotLocks() {
  if (file_ >= 0) close(file_);
}

bool SlotLocks::open_file() {
  if (file_ >= 0) return true;
  // Enough to ask, also where the page is read-only; what is in its place is not waited for.
  file_ = open(path_, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  FileIdentity found;
  if (file_ < 0) return false;
  if (identify(file_, &found) && found.device == identity_.device &&
      found.inode == identity_.inode) {
    return true;
  }
  close(file_);
  file_ = -1;
  return false;
}

bool SlotLocks::ask(SlotLock lock, unsigned slot, short* type) {
  struct flock range = byte_of(lock, slot, F_WRLCK);
  if (!open_file() || fcntl(file_, kAskLock, &range) != 0) return false;
  *type = range.l_type;
  return true;
}

bool SlotLocks::is_free(SlotLock lock, unsigned slot) {
  short type = F_WRLCK;
  return ask(lock, slot, &type) && type == F_UNLCK;
}

bool SlotLocks::is_held(SlotLock lock, unsigned slot) {
  short type = F_UNLCK;
  return ask(lock, slot, &type) && type != F_UNLCK;
}

Failure take_slot(const char* path, bool only_empty, OwnSlot* own) {
  {
    const Descriptions files(path);
    if (files.runs < 0 || files.memory < 0) return "is not there or cannot be written";
    if (lseek(files.memory, 0, SEEK_END) < off_t(sizeof(UsagePage))) return "is too short";
    void* const mapped =
        mmap(nullptr, sizeof(UsagePage), PROT_READ | PROT_WRITE, MAP_SHARED, files.memory, 0);
    if (mapped == MAP_FAILED) return "cannot be mapped";
    own->page = static_cast<UsagePage*>(mapped);
    if (!identify(files.memory, &own->identity)) return "cannot be mapped";
    own->slot = find_slot(files, *own->page, only_empty);
    if (own->slot == kNoSlot) return "has no slot left: too many processes use the card";
    if (!map_runs(files.runs, own)) return "cannot be mapped";
  }
  // A file of overlayfs is another one for a mapping, and the locks have ended with the
  // descriptors.
  SlotLocks locks(path, own->identity);
  const bool held =
      locks.is_held(SlotLock::kRuns, own->slot) && locks.is_held(SlotLock::kMemory, own->slot);
  return held ? nullptr : "is on a file system that does not keep locks, it must be on tmpfs";
}

void leave_slot(OwnSlot* own) {
  if (own->page != nullptr) munmap(own->page, sizeof(UsagePage));
  if (own->runs != nullptr) munmap(own->runs, page_bytes());
  *own = {};
}

}  // namespace mgpu::share
