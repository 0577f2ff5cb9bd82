#include "common/base/files.h"

#include <unistd.h>

#include <cerrno>

namespace mgpu {

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this == &other) return *this;
  close();
  number_ = std::exchange(other.number_, -1);
  return *this;
}

// What failed before is often reported after the descriptor has been closed.
void UniqueFd::close() {
  if (number_ < 0) return;
  const int before = errno;
  ::close(std::exchange(number_, -1));
  errno = before;
}

}  // namespace mgpu
