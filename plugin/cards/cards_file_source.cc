// cards_file_source: the file as a CardSource.
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
#include "plugin/cards/cards_file.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

nanoseconds since_epoch(const timespec& time) {
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// What tells one state of a file from another, without reading it. Empty: it is not there.
struct FileState {
  ino_t inode;
  off_t size;
  nanoseconds modified;
  nanoseconds changed;
  bool operator==(const FileState&) const = default;
};
using SeenFile = std::optional<FileState>;

FileState state_of(const struct stat& status) {
  return {status.st_ino, status.st_size, since_epoch(status.st_mtim), since_epoch(status.st_ctim)};
}

SeenFile look_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return state_of(status);
}

class CardsFileSource : public CardSource {
 public:
  explicit CardsFileSource(std::string path) : path_(std::move(path)) {}

  Result<FoundCards> read() override {
    const auto text = read_noting_its_state();
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
      return woken_.wait_until(lock, until, [&]() MGPU_REQUIRES(mutex_) { return wake_; }) ||
             until == end;
    };
    bool over = just_changed_ && wait(kFileTimeTick);
    while (!over && !just_changed_ && look_at(path_) == seen_) over = wait(kCardsFilePoll);
    wake_ = false;
  }

  void interrupt() override {
    const MutexLock lock(mutex_);
    wake_ = true;
    woken_.notify_all();
  }

  std::string description() const override { return path_; }

 private:
  // The state is that of the file which is read, and not of one that takes its place meanwhile.
  Result<std::string> read_noting_its_state() {
    const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    just_changed_ = false;
    if (!file.is_open()) {
      const int why = errno;
      seen_ = look_at(path_);
      return error(
          fmt::format("cannot read cards file {}: {}", in_quotes(path_), std::strerror(why)));
    }
    struct stat status {};
    if (::fstat(file.number(), &status) == 0) note_seen(status);
    return read_open_file(file, path_, kCardsFileBytesMax, "cards file");
  }

  void note_seen(const struct stat& status) {
    seen_ = state_of(status);
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const nanoseconds age = since_epoch(now) - seen_->changed;
    just_changed_ = age >= nanoseconds(0) && age < kFileTimeTick;
  }

  const std::string path_;
  SeenFile seen_;
  // It may change again without showing it, and is to be read once more.
  bool just_changed_ = false;
  std::vector<CardUse> use_;

  Mutex mutex_;
  ConditionVariable woken_;
  bool wake_ MGPU_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::unique_ptr<CardSource> cards_file_source(std::string path) {
  return std::make_unique<CardsFileSource>(std::move(path));
}

}  // namespace mgpu::plugin
