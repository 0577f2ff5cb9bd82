// mgpu-share-page makes and shows the pages of a share by hand:
//
//   mgpu-share-page make FOLDER GPU-UUID LIMIT_MIB CONTEXT_MIB
//   mgpu-share-page show FOLDER GPU-UUID
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "plugin/share/account.h"

namespace mgpu::share {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

bool read_uuid(const char* text, std::uint8_t (&uuid)[16]) {
  if (std::strncmp(text, "GPU-", 4) == 0) text += 4;
  unsigned digits = 0;
  for (; *text != '\0' && digits < 32; ++text) {
    if (*text == '-') continue;
    const char digit[2] = {*text, '\0'};
    char* end = nullptr;
    const unsigned long value = std::strtoul(digit, &end, 16);
    if (*end != '\0') return false;
    uuid[digits / 2] = static_cast<std::uint8_t>(unsigned{uuid[digits / 2]} << 4U | value);
    ++digits;
  }
  return digits == 32 && *text == '\0';
}

int fail(const char* folder, Failure failure) {
  std::fprintf(stderr, "mgpu-share-page: the page in %s %s\n", folder, failure);
  return 1;
}

int make(const char* folder, const PageValues& values) {
  const Failure failure = make_pages(folder, values);
  return failure == nullptr ? 0 : fail(folder, failure);
}

int show(const char* folder, const std::uint8_t (&uuid)[16]) {
  Account account;
  const Failure failure = account.attach(folder, uuid);
  if (failure != nullptr) return fail(folder, failure);
  std::printf("limit %llu MiB, reserved %llu MiB\n",
              static_cast<unsigned long long>(account.limit_bytes() / kMiB),
              static_cast<unsigned long long>(account.total_bytes() / kMiB));
  return 0;
}

}  // namespace
}  // namespace mgpu::share

int main(int count, char** words) {
  using namespace mgpu::share;
  PageValues values;
  const bool makes = count == 6 && std::strcmp(words[1], "make") == 0;
  const bool shows = count == 4 && std::strcmp(words[1], "show") == 0;
  if ((!makes && !shows) || !read_uuid(words[3], values.uuid)) {
    std::fprintf(stderr,
                 "usage: mgpu-share-page make FOLDER GPU-UUID LIMIT_MIB CONTEXT_MIB\n"
                 "       mgpu-share-page show FOLDER GPU-UUID\n");
    return 2;
  }
  if (shows) return show(words[2], values.uuid);
  values.limit_bytes = std::strtoull(words[4], nullptr, 10) * kMiB;
  values.context_bytes = std::strtoull(words[5], nullptr, 10) * kMiB;
  return make(words[2], values);
}
