#include "extender/placement/cluster.h"

#include <algorithm>
#include <utility>

namespace mgpu::extender {

const Card* Node::find(CardIndex index) const {
  const auto at = std::ranges::lower_bound(cards, index, {}, &Card::index);
  return at != cards.end() && at->index == index ? &*at : nullptr;
}

Card* Node::find(CardIndex index) {
  return const_cast<Card*>(std::as_const(*this).find(index));
}

}  // namespace mgpu::extender
