#include "plugin/share/look.h"

#include <fcntl.h>
#include <unistd.h>

#include "plugin/share/account.h"

namespace mgpu::share {
namespace {

// Reads a whole page, which others may write meanwhile. What is in its place without being a file
// is not waited for.
Failure read_page(const char* path, void* page, std::size_t size, MappedFile* identity) {
  const int file = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return "is not there or cannot be read";
  const bool known = identify(file, identity);
  const ssize_t bytes = pread(file, page, size, 0);
  close(file);
  if (!known || bytes < 0) return "cannot be read";
  return static_cast<std::size_t>(bytes) == size ? nullptr : "is too short";
}

// Counts on a copy of a page, whose last operation is in its slot.
std::uint64_t units_of_ended(const UsagePage& copy, SlotLocks& locks) {
  std::uint64_t units = 0;
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const std::uint64_t held = copy.slots[slot] & 0xffffffff;
    if (held != 0 && locks.is_free(slot)) units += held;
  }
  return units;
}

}  // namespace

std::uint64_t total_of(const UsagePage& page) {
  const std::uint64_t low = __atomic_load_n(&page.operation[0], __ATOMIC_ACQUIRE);
  return Operation{.low = low, .high = 0}.total() * kUnit;
}

Failure look_at(const char* folder, const std::uint8_t (&uuid)[16], Look* look) {
  const PagePaths paths(folder);
  LimitsPage limits{};
  UsagePage usage{};
  MappedFile identity;
  Failure failure = read_page(paths.limits, &limits, sizeof(limits), &identity);
  if (failure == nullptr) failure = check_limits(limits, uuid);
  if (failure == nullptr) failure = read_page(paths.usage, &usage, sizeof(usage), &identity);
  if (failure == nullptr) failure = check_usage(usage, uuid);
  if (failure != nullptr) return failure;
  look->limit_bytes = (limits.limit < kUnitsMax ? limits.limit.load() : kUnitsMax) * kUnit;
  look->overhead_bytes = (limits.overhead & kUnitsMax) * kUnit;
  look->used_bytes = total_of(usage);
  Operation last;
  complete(usage, &last);
  SlotLocks locks(paths.usage, identity);
  const std::uint64_t ended = units_of_ended(usage, locks) * kUnit;
  look->used_bytes -= ended < look->used_bytes ? ended : look->used_bytes;
  return nullptr;
}

}  // namespace mgpu::share
