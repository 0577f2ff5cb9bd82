#include "plugin/containers/turn_control.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "plugin/share/slot_locks.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Between two looks at which containers there are.
constexpr Nanoseconds kFollow = milliseconds(500);
// Between two looks at cards that nobody has used for `kQuiet`.
constexpr Nanoseconds kIdle = milliseconds(5);
constexpr Nanoseconds kQuiet = seconds(1);
// A process that says the same for so long may have ended.
constexpr Nanoseconds kSuspicious = milliseconds(10);
constexpr Nanoseconds kAskAgain = milliseconds(100);

Nanoseconds now_of_clock() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

std::uint32_t word_of(Turn turn) {
  switch (turn) {
    case Turn::kAlone:
      return share::kTurnAlone;
    case Turn::kRun:
      return share::kTurnRun;
    case Turn::kWait:
      return share::kTurnWait;
  }
  return share::kTurnAlone;
}

// Whoever owns the file of a page may hold a lease on it, for which opening it would wait.
UniqueFd open_page(const std::string& path, int access) {
  return UniqueFd(::open(path.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

}  // namespace

// A container and a card.
class TurnControl::Member {
 public:
  Member(AllocationId id, const std::string& folder)
      : id_(std::move(id)),
        usage_path_(folder + "/usage"),
        turn_path_(folder + "/turn"),
        turn_(open_page(turn_path_, O_RDWR)),
        activity_(open_page(folder + "/activity", O_RDONLY)),
        locks_(usage_path_.c_str(), identity_of(usage_path_)) {
    void* const mapped =
        ::mmap(nullptr, sizeof(share::TurnPage), PROT_READ, MAP_SHARED, turn_.number(), 0);
    if (mapped != MAP_FAILED) page_ = mapped;
  }
  ~Member() {
    set(share::kTurnAlone);
    if (page_ != nullptr) ::munmap(page_, sizeof(share::TurnPage));
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  Member(Member&&) = delete;
  Member& operator=(Member&&) = delete;

  const AllocationId& id() const { return id_; }

  // Whether its pages are still those of the container, which may have started again with others.
  bool is_current() const {
    share::MappedFile own;
    const share::MappedFile there = identity_of(turn_path_);
    return share::identify(turn_.number(), &own) && own.device == there.device &&
           own.inode == there.inode;
  }

  // What its processes have said since the last call. A page that cannot be read says nothing.
  CardActivity read(Nanoseconds now) {
    CardActivity activity;
    const auto bytes = static_cast<ssize_t>(sizeof(Words));
    Words words;
    constexpr off_t kBegin = offsetof(share::ActivityPage, slots);
    if (::pread(activity_.number(), words.data(), sizeof(words), kBegin) != bytes) words.fill(0);
    for (std::size_t slot = 0; slot < words.size(); ++slot) {
      const std::uint32_t changes = words[slot] ^ seen_[slot];
      if (changes != 0) checked_[slot] = now;
      if (changes != 0) ended_[slot] = false;
      if (words[slot] == 0 || has_ended(slot, now)) continue;
      activity.worked |= changes >= share::kLaunch || (words[slot] & share::kWorks) != 0;
      activity.works |= (words[slot] & share::kWorks) != 0;
      activity.waits |= (words[slot] & share::kWaits) != 0;
    }
    seen_ = words;
    return activity;
  }

  // Another process, which kept the turns before, may have written last.
  void write_again() { turn_now_ = ~std::uint32_t{0}; }

  // `anew`: also where it is the same.
  void set(std::uint32_t turn, bool anew = false) {
    if (turn == turn_now_ && !anew) return;
    const std::array<std::uint32_t, 2> words = {turn, ++heartbeat_};
    static_assert(offsetof(share::TurnPage, heartbeat) == offsetof(share::TurnPage, turn) + 4);
    constexpr off_t kBegin = offsetof(share::TurnPage, turn);
    // Nothing can be done where it fails: the container goes on without turns.
    static_cast<void>(::pwrite(turn_.number(), words.data(), sizeof(words), kBegin));
    if (turn == turn_now_) return;
    turn_now_ = turn;
    // The page is only named here, and never touched.
    if (page_ != nullptr) {
      ::syscall(SYS_futex, static_cast<std::byte*>(page_) + kBegin, FUTEX_WAKE, INT_MAX, nullptr,
                nullptr, 0);
    }
  }

 private:
  using Words = std::array<std::uint32_t, share::kSlots>;

  // A process that says the same for a while is asked about, now and then.
  bool has_ended(std::size_t slot, Nanoseconds now) {
    if (!ended_[slot] && now - checked_[slot] >= kSuspicious) {
      ended_[slot] = locks_.is_free(static_cast<unsigned>(slot));
      checked_[slot] = ended_[slot] ? now : now + kAskAgain;
    }
    return ended_[slot];
  }

  static share::MappedFile identity_of(const std::string& path) {
    const UniqueFd file = open_page(path, O_RDONLY);
    share::MappedFile identity;
    share::identify(file.number(), &identity);
    return identity;
  }

  const AllocationId id_;
  const std::string usage_path_;
  const std::string turn_path_;
  const UniqueFd turn_;
  const UniqueFd activity_;
  share::SlotLocks locks_;
  void* page_ = nullptr;  // TurnPage, for the futex
  Words seen_{};
  std::array<Nanoseconds, share::kSlots> checked_{};
  std::array<bool, share::kSlots> ended_{};
  std::uint32_t turn_now_ = ~std::uint32_t{0};
  std::uint32_t heartbeat_ = 0;
};

TurnControl::TurnControl(const SharePages& pages, const Records& records, TurnRule rule)
    : pages_(pages), records_(records), rule_(rule), thread_([this] { run(); }) {}

TurnControl::~TurnControl() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

bool TurnControl::wait(Nanoseconds time) {
  MutexLock lock(mutex_);
  return !stopped_.wait_for(lock, time, [this]() MGPU_REQUIRES(mutex_) { return stop_; });
}

void TurnControl::run() {
  ::prctl(PR_SET_TIMERSLACK, 1000UL);  // the default of 50 µs is as long as its waits
  Nanoseconds followed = -kFollow;
  Nanoseconds busy{};
  Nanoseconds next{};
  do {
    const Nanoseconds now = now_of_clock();
    if (now - followed >= kFollow) {
      follow_records();
      followed = now;
    }
    next = kFollow;
    for (auto& [uuid, card] : cards_) next = std::min(next, look(card, now));
    if (next < milliseconds(1)) busy = now;
    if (next < kFollow && now - busy >= kQuiet) next = kIdle;
  } while (wait(next));
  cards_.clear();
}

// Containers that have started, with parts of cards and files of turns.
void TurnControl::follow_records() {
  std::set<std::pair<CardUuid, AllocationId>> known;
  std::set<std::pair<CardUuid, AllocationId>> there;
  for (auto& [uuid, card] : cards_) {
    std::erase_if(card.members, [&turns = card.turns](const auto& item) {
      if (item.second->is_current()) return false;
      turns.remove(item.first);
      return true;
    });
    for (const auto& [id, member] : card.members) {
      known.emplace(uuid, member->id());
      member->write_again();
    }
  }
  for (const Record& record : records_.bound()) {
    for (const CardGrant& grant : record.cards) {
      const std::string folder = pages_.folder_of(record.id, grant.uuid);
      std::uint8_t uuid[16];
      if (grant.share.core >= kWholeCard || grant.share.core <= Percent() ||
          !share::read_uuid(grant.uuid.str().c_str(), uuid) ||
          !share::have_turns(folder.c_str(), uuid)) {
        continue;
      }
      there.emplace(grant.uuid, record.id);
      if (known.contains({grant.uuid, record.id})) continue;
      Card& card = cards_.try_emplace(grant.uuid, rule_).first->second;
      card.members.emplace(++last_id_, std::make_shared<Member>(record.id, folder));
      card.turns.add(last_id_, static_cast<double>(grant.share.core.value()) /
                                   static_cast<double>(kWholeCard.value()));
    }
  }
  for (auto& [uuid, card] : cards_) {
    std::erase_if(card.members, [&, card_uuid = uuid](const auto& item) {
      if (there.contains({card_uuid, item.second->id()})) return false;
      card.turns.remove(item.first);
      return true;
    });
  }
  std::erase_if(cards_, [](const auto& item) { return item.second.members.empty(); });
}

Nanoseconds TurnControl::look(Card& card, Nanoseconds now) const {
  if (rule_ == TurnRule::kBurst && card.members.size() == 1) {
    card.members.begin()->second->set(share::kTurnAlone);
    return kFollow;
  }
  std::map<CardTurns::Id, CardActivity> activity;
  for (auto& [id, member] : card.members) activity.emplace(id, member->read(now));
  const CardTurns::Look look = card.turns.look(now, activity);
  MGPU_DEBUG_CHECK(std::ranges::equal(
                       look.turns, activity, {}, [](const auto& item) { return item.first; },
                       [](const auto& item) { return item.first; }),
                   "each container of the card has a turn, and nobody else");
  MGPU_DEBUG_CHECK(look.next > Nanoseconds{}, "the next look is later than this one");
  // No container begins before the pages of the others require them to wait.
  for (const bool waits : {true, false}) {
    for (const auto& [id, turn] : look.turns) {
      if ((turn == Turn::kWait) != waits) continue;
      // A container that waits sees that the plugin is still running.
      card.members.at(id)->set(word_of(turn), activity.at(id).waits);
    }
  }
  return look.next;
}

}  // namespace mgpu::plugin
