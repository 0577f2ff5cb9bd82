#include "plugin/cards/card_source.h"

#include <algorithm>

#include "common/contract/limits.h"

namespace mgpu::plugin {

bool is_card_uuid(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text.size() <= kCardTextMax && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace mgpu::plugin
