#include "bench/gpu/check.h"

#include <utility>

namespace mgpu::gpu_trial {

void Findings::fact(std::string_view name, Json value, std::string_view unit) {
  Json finding = {{"fact", name}, {"value", std::move(value)}};
  if (!unit.empty()) finding["unit"] = unit;
  write_(finding);
}

void Findings::expect(std::string_view what, bool held, std::string_view detail) {
  Json finding = {{"expectation", what}, {"held", held}};
  if (!held) finding["detail"] = detail;
  write_(finding);
}

void Findings::skip(std::string_view reason) {
  write_({{"skipped", reason}});
}

std::chrono::milliseconds Findings::time_left() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
}

}  // namespace mgpu::gpu_trial
