// cards_file_source(): the file as a CardSource.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <optional>
#include <tuple>
#include <utility>

#include "common/base/files.h"
#include "common/base/mutex.h"
#include "common/base/text.h"
#include "plugin/cards/file/cards_file.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

nanoseconds since_epoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// Differs between two versions of a file: inode, size, times of modification and of status change.
// Empty if the file does not exist.
using FileState = std::optional<std::tuple<ino_t, off_t, nanoseconds, nanoseconds>>;

FileState state_of(const struct stat& status) {
  return std::tuple(status.st_ino, status.st_size, since_epoch(status.st_mtim),
                    since_epoch(status.st_ctim));
}

FileState state_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? state_of(status) : std::nullopt;
}

class CardsFileSource : public CardSource {
 public:
  explicit CardsFileSource(std::string path) : path_(std::move(path)) {}

  Result<FoundCards> read() override {
    const auto text = read_text();
    if (!text) return text.error();
    auto file = parse_cards_file(*text);
    if (!file) {
      return error(fmt::format("cards file {}: {}", in_quotes(path_), file.error().message));
    }
    use_ = std::move(file->use);
    return std::move(file->inventory);
  }

  std::vector<CardUse> use() override { return use_; }

  void wait_for_change(milliseconds timeout) override {
    const auto end = steady_clock::now() + timeout;
    MutexLock lock(mutex_);
    const auto wait = [&](milliseconds longest) {
      const auto until = std::min(end, steady_clock::now() + longest);
      return changed_.wait_until(lock, until, [&]() MGPU_REQUIRES(mutex_) {
        return interrupted_;
      }) || until == end;
    };
    bool over = may_change_unseen_ && wait(kFileTimeTick);
    while (!over && !may_change_unseen_ && state_of(path_) == state_) over = wait(kCardsFilePoll);
    interrupted_ = false;
  }

  void interrupt() override {
    const MutexLock lock(mutex_);
    interrupted_ = true;
    changed_.notify_all();
  }

  std::string description() const override { return path_; }

 private:
  // Notes the state of the very file that is read, even if another one is renamed over it
  // meanwhile.
  Result<std::string> read_text() {
    const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    may_change_unseen_ = false;
    if (!file.is_open()) {
      const int why = errno;
      state_ = state_of(path_);
      return error(
          fmt::format("cannot read cards file {}: {}", in_quotes(path_), std::strerror(why)));
    }
    struct stat status {};
    if (::fstat(file.number(), &status) == 0) {
      state_ = state_of(status);
      timespec now{};
      ::clock_gettime(CLOCK_REALTIME, &now);
      const nanoseconds age = since_epoch(now) - since_epoch(status.st_ctim);
      may_change_unseen_ = age >= nanoseconds(0) && age < kFileTimeTick;
    }
    return read_open_file(file, path_, kCardsFileBytesMax, "cards file");
  }

  const std::string path_;
  FileState state_;  // of the last read
  // The file changed so recently that another change may leave its times as they are. It is read
  // once more.
  bool may_change_unseen_ = false;
  std::vector<CardUse> use_;

  Mutex mutex_;
  ConditionVariable changed_;
  bool interrupted_ MGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<CardSource> cards_file_source(std::string path) {
  return std::make_unique<CardsFileSource>(std::move(path));
}

}  // namespace mgpu::plugin
