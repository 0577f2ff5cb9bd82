#include "extender/placement/card_kind.h"

#include "common/base/text.h"

namespace mgpu::extender {
namespace {

constexpr std::uint64_t kPrime = 1'099'511'628'211U;

std::uint64_t mix(std::uint64_t hash, std::uint64_t byte) {
  return (hash ^ byte) * kPrime;
}

}  // namespace

KindId kind_id(std::string_view model, MiB memory) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  for (const char c : model) hash = mix(hash, static_cast<unsigned char>(to_lower(c)));
  auto left = static_cast<std::uint64_t>(memory.value());
  for (int byte = 0; byte < 8; ++byte, left >>= 8) hash = mix(hash, left & 0xFF);
  return hash == 0 ? 1 : hash;
}

}  // namespace mgpu::extender
