#include "extender/placement/context.h"

namespace mgpu::extender {

std::uint64_t draw_of(const PodUid& uid) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;
  for (const char c : uid.str()) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1'099'511'628'211U;
  }
  return hash;
}

}  // namespace mgpu::extender
