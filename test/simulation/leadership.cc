#include "test/simulation/leadership.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "common/kube/objects/object_json.h"
#include "test/simulation/link.h"

namespace mgpu::simulation {
namespace {

constexpr std::string_view kIdentityPrefix = "extender-";

int process_of(std::string_view identity) {
  int process = 0;
  if (!identity.starts_with(kIdentityPrefix)) return process;
  identity.remove_prefix(kIdentityPrefix.size());
  std::from_chars(identity.data(), identity.data() + identity.size(), process);
  return process;
}

bool writes_lease(const kube::Request& request) {
  return request.method != kube::Method::kGet &&
         request.target.find("/leases") != std::string::npos;
}

// A dry run has parameters.
bool sends_binding(const kube::Request& request) {
  return request.method == kube::Method::kPost && request.target.ends_with("/binding");
}

// Nothing but a change of the pod prevents a binding that is under way. So where nobody may change
// it, the binding may happen late: Invariants checks that the card has room for it nevertheless.
bool cannot_be_touched(std::string_view target_of_binding) {
  constexpr std::string_view kBinding = "/binding";
  target_of_binding.remove_suffix(kBinding.size());
  kube::Request touch;
  touch.method = kube::Method::kPatch;
  touch.target = std::string(target_of_binding) + "/status";
  return refusal_of(touch).has_value();
}

}  // namespace

std::string identity_of(int process) {
  return std::string(kIdentityPrefix) + std::to_string(process);
}

void Leadership::on_served(int process, const kube::Request& request,
                           const kube::Response& response) {
  if (writes_lease(request) && response.ok()) {
    const auto lease = kube::read_lease(response.body);
    if (!lease) return violate_("the Lease cannot be read: " + lease.error().message);
    note_holder(process_of(lease->holder));
  }
  if (sends_binding(request)) check_bind(process, request, response.ok());
}

void Leadership::note_holder(int process) {
  const int before = std::exchange(holder_, process);
  if (process == 0 || process == before) return;
  if (deciders_.contains(process)) {
    return violate_(fmt::format("{} has decided, and takes the Lease again from {}",
                                identity_of(process), identity_of(before)));
  }
  terms_[process] = ++last_term_;
  if (before == 0 || !keeps_lease_(before)) return;
  violate_(fmt::format("{} takes the Lease from {}, which leads and can renew it",
                       identity_of(process), identity_of(before)));
}

void Leadership::check_bind(int process, const kube::Request& request, bool bound) {
  const auto term = terms_.find(process);
  if (term == terms_.end()) {
    return violate_(
        fmt::format("{} has never held the Lease, and sends a binding", identity_of(process)));
  }
  if (!bound || term->second >= deciding_term_) return;
  if (refuses_objects_ && cannot_be_touched(request.target)) return;
  violate_(fmt::format("a binding of {} happens after {} has decided", identity_of(process),
                       identity_of(decider_)));
}

void Leadership::on_answered(int process, const std::string& verb, int status) {
  if (status != 200 || terms_.contains(process)) return;
  violate_(fmt::format("{} has never held the Lease, and answers {}", identity_of(process), verb));
}

void Leadership::note_deciding(int process) {
  const auto term = terms_.find(process);
  if (term == terms_.end()) {
    return violate_(fmt::format("{} has never held the Lease, and decides", identity_of(process)));
  }
  deciders_.insert(process);
  if (term->second <= deciding_term_) return;
  deciding_term_ = term->second;
  decider_ = process;
}

}  // namespace mgpu::simulation
