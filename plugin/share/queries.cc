// What a program reads of a card's memory: its share, as if the card had no more.
#include "plugin/share/memory.h"

namespace mgpu::share {
namespace {

template <class Size>
void reduce(Size* value, std::uint64_t most) {
  if (*value > most) *value = static_cast<Size>(most);
}

template <class Size>
Result show_share(Result result, Size* free, Size* total) {
  if (result != kSuccess) return result;
  Card* const card = current_card();
  if (card == nullptr) return no_card();
  count_unused_pools(*card);
  count_uncounted_at_intervals(*card);
  // Otherwise a program sees what killed processes held as used.
  card->account.reap();
  const std::uint64_t limit = card->account.limit_bytes();
  const std::uint64_t reserved = card->account.total_bytes();
  reduce(free, reserved < limit ? limit - reserved : 0);
  reduce(total, limit);
  return result;
}

template <class Size>
Result show_total(Result result, Size* total, Device device) {
  if (result != kSuccess) return result;
  const Card* const card = card_of(device);
  if (card == nullptr) return kSystemNotReady;
  reduce(total, card->account.limit_bytes());
  return result;
}

}  // namespace
// --- the driver's functions ------------------------------------------------------------

Result cuMemGetInfo(unsigned* free, unsigned* total) {
  return show_share(REAL(cuMemGetInfo)(free, total), free, total);
}

Result cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return show_share(REAL(cuMemGetInfo_v2)(free, total), free, total);
}

Result cuDeviceTotalMem(unsigned* bytes, Device device) {
  return show_total(REAL(cuDeviceTotalMem)(bytes, device), bytes, device);
}

Result cuDeviceTotalMem_v2(std::size_t* bytes, Device device) {
  return show_total(REAL(cuDeviceTotalMem_v2)(bytes, device), bytes, device);
}

}  // namespace mgpu::share
