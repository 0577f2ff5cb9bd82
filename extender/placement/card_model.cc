#include "extender/placement/card_model.h"

#include <algorithm>

#include "common/base/text.h"

namespace mgpu::extender {
namespace {

bool lists(const std::vector<std::string>& models, std::string_view model) {
  return std::ranges::any_of(models, [&](const auto& name) { return same_model(name, model); });
}

}  // namespace

bool same_model(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

bool ModelLess::operator()(std::string_view a, std::string_view b) const {
  return std::ranges::lexicographical_compare(a, b, {}, to_lower, to_lower);
}

bool accepts_model(const std::vector<std::string>& models, const std::vector<std::string>& excluded,
                   std::string_view model) {
  return (models.empty() || lists(models, model)) && !lists(excluded, model);
}

KindId kind_id(std::string_view model, MiB memory) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  const auto add = [&hash](std::uint64_t byte) { hash = (hash ^ byte) * 1'099'511'628'211U; };
  for (const char c : model) add(static_cast<unsigned char>(to_lower(c)));
  auto left = static_cast<std::uint64_t>(memory.value());
  for (int byte = 0; byte < 8; ++byte, left >>= 8) add(left & 0xFF);
  return hash == 0 ? 1 : hash;
}

}  // namespace mgpu::extender
