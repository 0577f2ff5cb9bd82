#include "plugin/share/cards.h"

#include <unistd.h>

#include <cstring>

#include "plugin/share/launches.h"
#include "plugin/share/memory.h"
#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

Card cards[kCardsMax];
std::atomic<unsigned> count = 0;
pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct Line {
  void add(const char* more) {
    const std::size_t size = std::strlen(more);
    if (length + size >= sizeof(text)) return;
    std::memcpy(text + length, more, size);
    length += size;
  }
  char text[512];
  std::size_t length = 0;
};

// Once: programs try again.
void say_why(const char* folder, Failure failure) {
  static std::atomic<bool> said = false;
  if (said.exchange(true)) return;
  Line line;
  line.add("mgpu: CUDA is not available, because the page of this card's share, ");
  line.add(folder);
  line.add(", ");
  line.add(failure);
  line.add(". Restart the container, and see the log of mgpu-device-plugin if it happens again.\n");
  const ssize_t written = write(STDERR_FILENO, line.text, line.length);
  static_cast<void>(written);  // there is nobody else to tell
}

Result attach_card(int ordinal) {
  Card& card = cards[ordinal];
  Uuid uuid{};
  Result result = REAL(cuDeviceGet)(&card.device, ordinal);
  if (result != kSuccess) return result;
  result = REAL(cuDeviceGetUuid_v2)(&uuid, card.device);
  // Drivers before CUDA 11.4 have the first version only.
  if (result != kSuccess) result = REAL(cuDeviceGetUuid)(&uuid, card.device);
  if (result != kSuccess) return result;
  char folder[kPathMax] = MGPU_SHARE_FOLDER "/";
  char name[41];
  write_uuid(uuid.bytes, name);
  std::memcpy(folder + std::strlen(folder), name, sizeof(name));
  Failure failure = card.account.attach(folder, uuid.bytes);
  if (failure == nullptr) {
    failure = attach_turns(static_cast<unsigned>(ordinal), folder, uuid.bytes, card.account.slot());
  }
  if (failure == nullptr) {
    find_in_nvml(static_cast<unsigned>(ordinal), name);
    return kSuccess;
  }
  say_why(folder, failure);
  return kSystemNotReady;
}

}  // namespace

bool cards_attached() {
  const unsigned known = count.load(std::memory_order_acquire);
  return known > 0 && cards[known - 1].account.attached();
}

Result attach_cards() {
  if (cards_attached()) return kSuccess;
  int found = 0;
  const Result asked = REAL(cuDeviceGetCount)(&found);
  if (asked != kSuccess || found == 0) return asked;
  if (found > static_cast<int>(kCardsMax)) return kSystemNotReady;
  const Lock lock(mutex);
  if (cards_attached()) return kSuccess;
  forget_memory();  // of the parent of a forked child
  forget_launches();
  for (int i = 0; i < found; ++i) {
    if (cards[i].account.attached()) continue;
    const Result result = attach_card(i);
    if (result != kSuccess) return result;
  }
  count.store(static_cast<unsigned>(found), std::memory_order_release);
  return kSuccess;
}

Card* card_of(Device device) {
  if (!cards_attached() && attach_cards() != kSuccess) return nullptr;
  for (unsigned i = 0; i < card_count(); ++i) {
    if (cards[i].device == device) return &cards[i];
  }
  return nullptr;
}

Card* current_card() {
  Device device = 0;
  return REAL(cuCtxGetDevice)(&device) == kSuccess ? card_of(device) : nullptr;
}

Result no_card() {
  Device device = 0;
  const Result result = REAL(cuCtxGetDevice)(&device);  // there may be no context, or no cuInit
  return result != kSuccess ? result : kSystemNotReady;
}

unsigned index_of(const Card& card) {
  return static_cast<unsigned>(&card - cards);
}

Card& card_at(unsigned index) {
  return cards[index];
}

unsigned card_count() {
  return count.load(std::memory_order_acquire);
}

bool reserve(Card& card, std::uint64_t bytes) {
  count_uncounted_at_intervals(card);
  if (card.account.reserve(bytes)) return true;
  if (bytes > card.account.limit_bytes()) return false;
  count_uncounted(false);
  if (card.account.reserve(bytes)) return true;
  if (!uses_pools()) return false;
  count_unused_pools(card);
  if (card.account.reserve(bytes)) return true;
  trim_unused_pools(card);
  return card.account.reserve(bytes);
}

// --- the driver's functions ------------------------------------------------------------

Result cuInit(unsigned flags) {
  const Result result = REAL(cuInit)(flags);
  return result == kSuccess ? attach_cards() : result;
}

}  // namespace mgpu::share
