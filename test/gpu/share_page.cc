// mgpu-share-page makes and shows the pages of a share by hand:
//
//   mgpu-share-page make FOLDER GPU-UUID LIMIT_MIB CONTEXT_MIB
//   mgpu-share-page show FOLDER GPU-UUID
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "plugin/share/look.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

int fail(const char* folder, Failure failure) {
  std::fprintf(stderr, "mgpu-share-page: the page in %s %s\n", folder, failure);
  return 1;
}

// Reads MiB as bytes. A page can have less than 2 TiB. Says on standard error what is wrong.
bool read_mib(const char* name, const char* text, std::uint64_t* bytes) {
  constexpr std::uint64_t kMost = kUnitsMax * kUnit / kMiB;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  const bool digits = *text >= '0' && *text <= '9' && *end == '\0';
  if (digits && value <= kMost) {
    *bytes = value * kMiB;
    return true;
  }
  std::fprintf(stderr,
               "mgpu-share-page: %s must be a whole number of MiB, at most %llu, is \"%s\"\n", name,
               static_cast<unsigned long long>(kMost), text);
  return false;
}

int make(const char* folder, const PageValues& values) {
  const Failure failure = make_pages(folder, values);
  return failure == nullptr ? 0 : fail(folder, failure);
}

int show(const char* folder, const std::uint8_t (&uuid)[16]) {
  Look look;
  const Failure failure = look_at(folder, uuid, &look);
  if (failure != nullptr) return fail(folder, failure);
  std::printf("limit %llu MiB, reserved %llu MiB\n",
              static_cast<unsigned long long>(look.limit_bytes / kMiB),
              static_cast<unsigned long long>(look.used_bytes / kMiB));
  return 0;
}

}  // namespace
}  // namespace mgpu::share

int main(int count, char** words) {
  using namespace mgpu::share;
  constexpr char kUsage[] =
      "usage: mgpu-share-page make FOLDER GPU-UUID LIMIT_MIB CONTEXT_MIB\n"
      "       mgpu-share-page show FOLDER GPU-UUID\n";
  if (count == 2 && std::strcmp(words[1], "--help") == 0) return std::fputs(kUsage, stdout) < 0;
  PageValues values;
  const bool makes = count == 6 && std::strcmp(words[1], "make") == 0;
  const bool shows = count == 4 && std::strcmp(words[1], "show") == 0;
  if ((!makes && !shows) || !read_uuid(words[3], values.uuid)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (shows) return show(words[2], values.uuid);
  const bool valid = read_mib("LIMIT_MIB", words[4], &values.limit_bytes) &&
                     read_mib("CONTEXT_MIB", words[5], &values.context_bytes);
  if (!valid) return 2;
  return make(words[2], values);
}
