#include "extender/placement/model_name.h"

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

}  // namespace mgpu::extender
