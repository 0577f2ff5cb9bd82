// Files as this project reads them: whole, with a limit, and never waiting for somebody else. Any
// thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace mgpu {

// Owns a file descriptor, and closes it at the end. Not thread-safe.
class UniqueFd {
 public:
  UniqueFd() = default;
  // A negative `number`, as from an open() that failed, owns nothing.
  explicit UniqueFd(int number) : number_(number) {}
  ~UniqueFd() { close(); }
  UniqueFd(UniqueFd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  bool is_open() const { return number_ >= 0; }
  // Negative: it owns nothing.
  int number() const { return number_; }
  // Closes before the end. `errno` stays as it was.
  void close();

 private:
  int number_ = -1;
};

// All of an ordinary file, links followed. A pipe or a device in its place is refused, and not
// waited for. `what` names the file in an error: "token file". Errors: it cannot be read, is no
// ordinary file, or has more than `bytes_max` bytes; the sentence has `what`, the path and the
// reason.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max,
                              std::string_view what = "file");
// The same of a file that is open, from where it stands. `path` is for sentences.
Result<std::string> read_open_file(const UniqueFd& file, const std::string& path,
                                   std::size_t bytes_max, std::string_view what = "file");

}  // namespace mgpu
