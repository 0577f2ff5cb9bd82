#include "extender/placement/policy.h"

#include <array>

#include "common/base/text.h"
#include "extender/placement/policies/bestfit.h"
#include "extender/placement/policies/binpack.h"
#include "extender/placement/policies/clustering.h"
#include "extender/placement/policies/dotprod.h"
#include "extender/placement/policies/equilibrium.h"
#include "extender/placement/policies/fgd.h"
#include "extender/placement/policies/packing.h"
#include "extender/placement/policies/random.h"
#include "extender/placement/policies/spread.h"

namespace mgpu::extender {

namespace {

constexpr std::array kPolicies{&kEquilibrium, &kBinpack,    &kSpread,  &kFgd,   &kBestFit,
                               &kPacking,     &kClustering, &kDotProd, &kRandom};

const Policy* find_one(std::string_view name) {
  for (const Policy* policy : kPolicies) {
    if (policy->name == name) return policy;
  }
  return nullptr;
}

std::string known_names() {
  std::string names;
  for (const Policy* policy : kPolicies) names += std::string(policy->name) + ", ";
  return names + "or <node policy>/<card policy>";
}

}  // namespace

Result<PolicyChoice> find_policy(std::string_view name) {
  const std::size_t slash = name.find('/');
  const bool two = slash != std::string_view::npos;
  const PolicyChoice choice{find_one(name.substr(0, slash)),
                            find_one(two ? name.substr(slash + 1) : name)};
  if (choice.node != nullptr && choice.card != nullptr) return choice;
  return error("policy must be " + known_names() + ", found " + in_quotes(name));
}

std::vector<std::string_view> policy_names() {
  std::vector<std::string_view> names;
  for (const Policy* policy : kPolicies) names.push_back(policy->name);
  return names;
}

}  // namespace mgpu::extender
