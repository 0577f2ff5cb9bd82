// The cards of this process with their accounts, from the first cuInit on.
#pragma once

#include "plugin/share/account.h"
#include "plugin/share/driver.h"

namespace mgpu::share {

constexpr unsigned kCardsMax = 64;

struct Card {
  Device device = 0;
  Account account;
};

// Attaches to the page of every card that the driver shows; a forked child does so anew. If one has
// no page, this prints why and answers CUDA_ERROR_SYSTEM_NOT_READY, so that no program runs without
// its limit.
Result attach_cards();

// False in a forked child, where a lock of the parent may never be released.
bool cards_attached();

// Null if there is no such card, or if its page cannot be used.
Card* card_of(Device device);
// Returns the card of the current context.
Card* current_card();
// The error of a call that needs a card and got none.
Result no_card();

unsigned index_of(const Card& card);
Card& card_at(unsigned index);
unsigned card_count();

// Reserves memory of a card before the driver is called. What does not fit makes pools and graphs
// give back what they do not use.
bool reserve(Card& card, std::uint64_t bytes);

}  // namespace mgpu::share
