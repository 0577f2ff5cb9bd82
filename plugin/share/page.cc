#include "plugin/share/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "plugin/share/turn_page.h"

namespace mgpu::share {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

void join(const char* folder, const char* name, char (&path)[kPathMax]) {
  const std::size_t length = std::strlen(folder);
  path[0] = '\0';  // a path that is too long names nothing
  if (length + std::strlen(name) + 2 > kPathMax) return;
  std::memcpy(path, folder, length);
  path[length] = '/';
  std::memcpy(path + length + 1, name, std::strlen(name) + 1);
}

bool append(const char* path, const char* more, char (&whole)[kPathMax]) {
  const std::size_t length = std::strlen(path);
  if (length + std::strlen(more) >= kPathMax) return false;
  std::memcpy(whole, path, length);
  std::memcpy(whole + length, more, std::strlen(more) + 1);
  return true;
}

PageHeader header_of(const std::uint8_t (&uuid)[16], std::size_t size) {
  PageHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kPageVersion;
  header.size = static_cast<std::uint32_t>(size);
  std::memcpy(header.uuid, uuid, sizeof(header.uuid));
  return header;
}

Failure check_header(const PageHeader& header, std::size_t size, const std::uint8_t (&uuid)[16]) {
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) return "is not a page of mgpu";
  if (header.version != kPageVersion) return "has another version than this library";
  if (header.size != size) return "has another size than this library expects";
  if (std::memcmp(header.uuid, uuid, sizeof(uuid)) != 0) return "is the page of another card";
  return nullptr;
}

int digit_of(char text) {
  if (text >= '0' && text <= '9') return text - '0';
  if (text >= 'a' && text <= 'f') return text - 'a' + 10;
  if (text >= 'A' && text <= 'F') return text - 'A' + 10;
  return -1;
}

// Writes a file that appears complete or not at all.
Failure make_file(const char* path, const void* data, std::size_t size, mode_t mode) {
  char unfinished[kPathMax];
  if (!append(path, ".new", unfinished)) return "has a path that is too long";
  const int file = open(unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (file < 0) return "cannot be made";
  // The umask of this process has no say.
  const bool written = fchmod(file, mode) == 0 && write(file, data, size) == ssize_t(size);
  close(file);
  if (written && rename(unfinished, path) == 0) return nullptr;
  unlink(unfinished);
  return "cannot be written";
}

Failure map_file(const char* path, std::size_t size, bool writable, void** mapped) {
  const int file = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (file < 0) return "is not there or cannot be read";
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const bool whole = lseek(file, 0, SEEK_END) >= off_t(size);
  *mapped = whole ? mmap(nullptr, size, protection, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  if (!whole) return "is too short";
  return *mapped != MAP_FAILED ? nullptr : "cannot be mapped";
}

}  // namespace

TurnPaths::TurnPaths(const char* folder) {
  join(folder, "turn", turn);
  join(folder, "activity", activity);
}

PagePaths::PagePaths(const char* folder) {
  join(folder, "limits", limits);
  join(folder, "usage", usage);
}

Failure make_pages(const char* folder, const PageValues& values) {
  if (units_of(values.limit_bytes) > kUnitsMax) return "cannot have a limit over 2 TiB";
  const PagePaths paths(folder);
  // It is made last: without it, what is there is of a call that was interrupted.
  if (access(paths.limits, F_OK) == 0) return "exists already";
  UsagePage usage{};
  // Nobody has reserved anything, and the last operation, number 1, is nobody's.
  usage.header = header_of(values.uuid, sizeof(usage));
  usage.operation[0] = std::uint64_t{1} << 32;
  usage.operation[1] = kNoSlot;
  for (auto& slot : usage.slots) slot = std::uint64_t{1} << 32;
  LimitsPage limits{};
  limits.header = header_of(values.uuid, sizeof(limits));
  limits.limit = units_of(values.limit_bytes);
  limits.context = units_of(values.context_bytes);
  const Failure failure = make_file(paths.usage, &usage, sizeof(usage), 0666);
  return failure != nullptr ? failure : make_file(paths.limits, &limits, sizeof(limits), 0644);
}

Failure make_turn_pages(const char* folder, const std::uint8_t (&uuid)[16]) {
  const TurnPaths paths(folder);
  ActivityPage activity{};
  activity.header = header_of(uuid, sizeof(activity));
  TurnPage turn{};
  turn.header = header_of(uuid, sizeof(turn));
  const Failure failure = make_file(paths.activity, &activity, sizeof(activity), 0666);
  return failure != nullptr ? failure : make_file(paths.turn, &turn, sizeof(turn), 0644);
}

bool have_turns(const char* folder, const std::uint8_t (&uuid)[16]) {
  const TurnPaths paths(folder);
  const auto has = [&](const char* path, std::size_t size) {
    PageHeader header{};
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return false;
    const bool whole = pread(file, &header, sizeof(header), 0) == ssize_t(sizeof(header)) &&
                       lseek(file, 0, SEEK_END) >= off_t(size);
    close(file);
    return whole && check_header(header, size, uuid) == nullptr;
  };
  return has(paths.turn, sizeof(TurnPage)) && has(paths.activity, sizeof(ActivityPage));
}

Failure set_overhead(const char* folder, std::uint64_t bytes) {
  const PagePaths paths(folder);
  const std::uint64_t units = units_of(bytes) < kUnitsMax ? units_of(bytes) : kUnitsMax;
  // Whoever owns a file may hold a lease on it, for which this would wait.
  const int file = open(paths.limits, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return "is not there or cannot be written";
  const ssize_t written = pwrite(file, &units, sizeof(units), offsetof(LimitsPage, overhead));
  close(file);
  return written == ssize_t(sizeof(units)) ? nullptr : "cannot be written";
}

Failure map_limits(const char* path, const std::uint8_t (&uuid)[16], const LimitsPage** page) {
  void* mapped = nullptr;
  const Failure failure = map_file(path, sizeof(LimitsPage), false, &mapped);
  if (failure != nullptr) return failure;
  *page = static_cast<const LimitsPage*>(mapped);
  return check_limits(**page, uuid);
}

Failure map_turn_pages(const char* folder, const std::uint8_t (&uuid)[16], const TurnPage** turn,
                       ActivityPage** activity) {
  const TurnPaths paths(folder);
  *turn = nullptr;
  if (access(paths.turn, F_OK) != 0) return nullptr;
  void* of_plugin = nullptr;
  void* own = nullptr;
  Failure failure = map_file(paths.turn, sizeof(TurnPage), false, &of_plugin);
  if (failure == nullptr) failure = map_file(paths.activity, sizeof(ActivityPage), true, &own);
  if (failure != nullptr) return failure;
  *turn = static_cast<const TurnPage*>(of_plugin);
  *activity = static_cast<ActivityPage*>(own);
  failure = check_header((*turn)->header, sizeof(TurnPage), uuid);
  return failure != nullptr ? failure
                            : check_header((*activity)->header, sizeof(ActivityPage), uuid);
}

Failure check_limits(const LimitsPage& page, const std::uint8_t (&uuid)[16]) {
  return check_header(page.header, sizeof(LimitsPage), uuid);
}

Failure check_usage(const UsagePage& page, const std::uint8_t (&uuid)[16]) {
  return check_header(page.header, sizeof(UsagePage), uuid);
}

void write_uuid(const std::uint8_t (&uuid)[16], char (&text)[41]) {
  std::memcpy(text, "GPU-", 4);
  char* to = text + 4;
  for (unsigned i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
    *to++ = kDigits[uuid[i] >> 4U];
    *to++ = kDigits[uuid[i] & 15U];
  }
  *to = '\0';
}

bool read_uuid(const char* text, std::uint8_t (&uuid)[16]) {
  if (std::strncmp(text, "GPU-", 4) == 0 || std::strncmp(text, "MIG-", 4) == 0) text += 4;
  unsigned digits = 0;
  for (; *text != '\0' && digits < 32; ++text) {
    if (*text == '-') continue;
    const int value = digit_of(*text);
    if (value < 0) return false;
    uuid[digits / 2] =
        static_cast<std::uint8_t>(unsigned{uuid[digits / 2]} << 4U | unsigned(value));
    ++digits;
  }
  return digits == 32 && *text == '\0';
}

}  // namespace mgpu::share
