// Reads and writes whole files. Any thread. Of several writers of a path the last one wins.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"

namespace mgpu {

// Owns a file descriptor and closes it. Not thread-safe.
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
  // Negative if it owns nothing.
  int number() const { return number_; }
  // Keeps `errno`.
  void close();

 private:
  int number_ = -1;
};

// The content of a regular file; links are followed. A pipe or a device is an error, and is not
// waited for. Other errors: the file cannot be read, or has more than `bytes_max` bytes. The
// sentence of an error has `what`, such as "token file", the path and the reason.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max,
                              std::string_view what = "file");
// The same for an open file, from its current offset. `path` is for the sentences.
Result<std::string> read_open_file(const UniqueFd& file, const std::string& path,
                                   std::size_t bytes_max, std::string_view what = "file");
// What a user names to be read: a file, a pipe that is read to its end, or standard input for "-".
Result<std::string> read_input(const std::string& path, std::size_t bytes_max);

enum class Durability {
  kProcess,  // survives the end of this process
  kMachine,  // survives a power failure: the file and its folder are synced
};

// Replaces a file atomically: the text is written to <path>.<random>.part, which is then renamed,
// so that two processes do not write to the same file. Readers of CDI specs ignore that suffix.
// Missing folders are created. After an error, the old file is unchanged; the sentence has the path
// and the reason.
Result<void> write_file(const std::string& path, std::string_view text, Durability durability);
inline constexpr std::string_view kUnfinished = ".part";
// The names in a folder; empty if it cannot be read.
std::set<std::string> names_in(const std::string& folder);
// Removes what killed processes left of writing files whose paths begin with `prefix`.
void remove_unfinished(const std::string& prefix);

}  // namespace mgpu
