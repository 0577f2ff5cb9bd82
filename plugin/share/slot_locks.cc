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

struct flock byte_of(unsigned slot, short type) {
  struct flock range;
  std::memset(&range, 0, sizeof(range));
  range.l_type = type;
  range.l_whence = SEEK_SET;
  // Behind the end of the file, where nobody reads or writes.
  range.l_start = (off_t{1} << 32) + off_t(slot);
  range.l_len = 1;
  return range;
}

// A description of the file while a slot is taken. What is locked on it stays with its mapping.
struct Description {
  explicit Description(const char* path) : file(open(path, O_RDWR | O_CLOEXEC)) {}
  ~Description() {
    if (file >= 0) close(file);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  Description(Description&&) = delete;
  Description& operator=(Description&&) = delete;

  int file;
};

unsigned lock_any_slot(int file) {
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    struct flock range = byte_of(slot, F_WRLCK);
    if (fcntl(file, kSetLock, &range) == 0) return slot;
  }
  return kNoSlot;
}

}  // namespace

// fstat() itself has a symbol version of glibc 2.33.
bool identify(int file, MappedFile* identity) {
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
  MappedFile found;
  if (file_ < 0) return false;
  if (identify(file_, &found) && found.device == identity_.device &&
      found.inode == identity_.inode) {
    return true;
  }
  close(file_);
  file_ = -1;
  return false;
}

bool SlotLocks::ask(unsigned slot, short* type) {
  struct flock range = byte_of(slot, F_WRLCK);
  if (!open_file() || fcntl(file_, kAskLock, &range) != 0) return false;
  *type = range.l_type;
  return true;
}

bool SlotLocks::is_free(unsigned slot) {
  short type = F_WRLCK;
  return ask(slot, &type) && type == F_UNLCK;
}

bool SlotLocks::is_held(unsigned slot) {
  short type = F_UNLCK;
  return ask(slot, &type) && type != F_UNLCK;
}

Failure take_slot(const char* path, OwnSlot* own) {
  {
    const Description page(path);
    if (page.file < 0) return "is not there or cannot be written";
    if (lseek(page.file, 0, SEEK_END) < off_t(sizeof(UsagePage))) return "is too short";
    void* const mapped =
        mmap(nullptr, sizeof(UsagePage), PROT_READ | PROT_WRITE, MAP_SHARED, page.file, 0);
    if (mapped == MAP_FAILED) return "cannot be mapped";
    own->page = static_cast<UsagePage*>(mapped);
    if (!identify(page.file, &own->identity)) return "cannot be mapped";
    own->slot = lock_any_slot(page.file);
    if (own->slot == kNoSlot) return "has no slot left: too many processes use the card";
  }
  // A file of overlayfs is another one for a mapping, and the lock has ended with the descriptor.
  SlotLocks locks(path, own->identity);
  if (locks.is_held(own->slot)) return nullptr;
  return "is on a file system that does not keep locks, it must be on tmpfs";
}

void leave_slot(OwnSlot* own) {
  if (own->page != nullptr) munmap(own->page, sizeof(UsagePage));
  *own = {};
}

}  // namespace mgpu::share
