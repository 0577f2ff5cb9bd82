// Names of card models, and kinds of cards: one model in one memory size. Policies treat cards of
// one kind alike. Pure; any thread.
//
// Users write a model as the driver does or as NVIDIA's node label nvidia.com/gpu.product does:
// "NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-SHARED", "a100 sxm4 80gb" are one model. Case
// (ASCII only, whatever the locale), the vendor, the kind of separator and the suffix -SHARED do
// not count. The suffix of a MIG instance does, because an instance is not the card.
//
// They also write a part: "A100", "A100 80GB". It names each model that has its words in this
// order, so that it means the same on each node, whatever cards the others have. A name that begins
// with "NVIDIA" is no part: "NVIDIA H200" does not name "NVIDIA H200 NVL", and "H200" does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/units.h"

namespace mgpu::extender {

bool same_model(std::string_view a, std::string_view b);

// Whether `name`, as a user writes it, names `model`.
bool names_model(std::string_view name, std::string_view model);

// Whether this is the model of a MIG device: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
bool is_instance(std::string_view model);

// A strict order in which names are equivalent if same_model is true.
struct ModelLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

// Whether one of `models` names `model`, or `models` is empty and `model` is that of a whole card,
// and none of `excluded` names it. No pod gets a MIG device that it does not name.
bool accepts_model(const std::vector<std::string>& models, const std::vector<std::string>& excluded,
                   std::string_view model);

// Never 0. A 64-bit hash (FNV-1a) of the model, as it is compared, and of the memory size.
using KindId = std::uint64_t;
KindId kind_id(std::string_view model, MiB memory);

struct CardKind {
  std::string model;
  MiB memory;
  KindId id() const { return kind_id(model, memory); }
  bool operator==(const CardKind&) const = default;
};

}  // namespace mgpu::extender
