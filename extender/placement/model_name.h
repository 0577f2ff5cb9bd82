// Names of card models, which people write in either case: "a100" is "A100". ASCII only, whatever
// the locale. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mgpu::extender {

bool same_model(std::string_view a, std::string_view b);

// Orders by what same_model compares.
struct ModelLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

// Whether `model` is in `models`, or `models` is empty, and is not in `excluded`.
bool accepts_model(const std::vector<std::string>& models, const std::vector<std::string>& excluded,
                   std::string_view model);

}  // namespace mgpu::extender
