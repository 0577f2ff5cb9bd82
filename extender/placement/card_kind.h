// Cards that policies need not tell apart: of one model (without regard to case) and one size.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/units.h"

namespace mgpu::extender {

// Never 0. Kinds that differ may share a number as rarely as 64-bit hashes do (FNV-1a).
using KindId = std::uint64_t;
KindId kind_id(std::string_view model, MiB memory);

struct CardKind {
  std::string model;
  MiB memory;
  KindId id() const { return kind_id(model, memory); }
  bool operator==(const CardKind&) const = default;
};

}  // namespace mgpu::extender
