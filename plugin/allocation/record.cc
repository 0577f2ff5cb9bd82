#include "plugin/allocation/record.h"

#include <algorithm>

#include "common/base/check.h"

namespace mgpu::plugin {

namespace {

constexpr std::size_t kNonceMax = 16;

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
  });
}

}  // namespace

AllocationId allocation_id(const DeviceSet& devices, std::string_view nonce) {
  MGPU_CHECK(is_word(nonce) && nonce.size() <= kNonceMax, "a nonce of letters and digits");
  AllocationId id(devices.hash() + "-" + std::string(nonce));
  MGPU_CHECK(valid(id), "a new id is valid");
  return id;
}

bool is_part_of_one_card(const Record& record) {
  return record.cards.size() == 1 && record.cards.front().share.core < kWholeCard;
}

bool has_parts_of_several_cards(const Record& record) {
  return record.cards.size() > 1 && std::ranges::any_of(record.cards, [](const CardGrant& card) {
           return card.share.core < kWholeCard;
         });
}

bool valid(const AllocationId& id) {
  const std::string_view text = id.str();
  if (text.size() <= kHashDigits || text[kHashDigits] != '-') return false;
  const std::string_view nonce = text.substr(kHashDigits + 1);
  return is_word(text.substr(0, kHashDigits)) && is_word(nonce) && nonce.size() <= kNonceMax;
}

}  // namespace mgpu::plugin
