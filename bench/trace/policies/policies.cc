#include "bench/trace/policies/policies.h"

#include <array>

#include "extender/placement/policies/policies.h"

namespace mgpu::trace {
namespace {

constexpr std::array kPolicies{&extender::kEquilibrium,
                               &extender::kBinpack,
                               &extender::kSpread,
                               &kFgd,
                               &kBestFit,
                               &kPacking,
                               &kClustering,
                               &kDotProd,
                               &kRandomPolicy};

}  // namespace

Result<extender::PolicyChoice> find_policy(std::string_view name) {
  return extender::find_policy(name, kPolicies);
}

}  // namespace mgpu::trace
