// The Lease, and where the Service sends kube-scheduler.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "extender/kubectl/doctor/checks.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

constexpr std::size_t kRandomDigits = 16;

// Whether `holder` has the form of extender/process_identity.h: a host, "_" and 64 random bits.
bool is_identity(std::string_view holder) {
  const std::size_t end = holder.rfind('_');
  if (end == holder.npos || end == 0) return false;
  const std::string_view random = holder.substr(end + 1);
  return random.size() == kRandomDigits &&
         random.find_first_not_of("0123456789abcdef") == random.npos;
}

std::string lease_name(const Facts& facts) {
  return fmt::format("{}/{}", facts.name_space, facts.lease_name);
}

void check_holder(const Facts& facts, Findings& findings) {
  const std::string& holder = facts.lease->holder;
  const auto foreign = [&] {
    findings.push_back(
        {Level::kError,
         fmt::format("the Lease {} is held by \"{}\", which is no living pod of mgpu-extender, so "
                     "that no extender binds pods",
                     lease_name(facts), holder),
         Advice(kEndHolder, facts.name_space, facts.lease_name)});
  };
  if (!is_identity(holder)) return foreign();
  if (!facts.extender_pods.known()) return;
  const auto& pods = facts.extender_pods.value();
  if (!pods.empty()) {
    if (pod_of_holder(pods, holder) == nullptr) foreign();
    return;
  }
  findings.push_back(
      {Level::kNote, fmt::format("the Lease {} is held by \"{}\", a process outside of pods",
                                 lease_name(facts), holder)});
}

void check_renewal(const Facts& facts, Findings& findings) {
  const LeaseFacts& lease = facts.lease.value();
  if (!lease.renewed || !lease.duration_seconds) return;
  const auto age = facts.now - *lease.renewed;
  if (age <= std::chrono::seconds(*lease.duration_seconds) + kLeaseSlack) return;
  findings.push_back(
      {Level::kError,
       fmt::format("the Lease {} was not renewed for {} s, and is valid for {} s, so "
                   "that no extender leads",
                   lease_name(facts), age.count(), *lease.duration_seconds),
       kSeeReplicas});
}

}  // namespace

// The host of an identity is that of the pod, or with hostNetwork that of its node.
const ProgramPod* pod_of_holder(const std::vector<ProgramPod>& pods, std::string_view holder) {
  const std::string_view host = holder.substr(0, holder.rfind('_'));
  for (const ProgramPod& pod : pods) {
    const bool alive = pod.phase == "Running";
    if (alive && (pod.ref.name == host || pod.node == host)) return &pod;
  }
  return nullptr;
}

Findings check_leader(const Facts& facts) {
  Findings findings;
  if (facts.lease.absent()) {
    return {{Level::kError,
             fmt::format("there is no Lease {}, so that no extender has ever started",
                         lease_name(facts)),
             kSeeStart}};
  }
  if (!known_or_add(facts.lease, findings)) return findings;
  if (facts.lease->holder.empty()) {
    return {{Level::kError, fmt::format("the Lease {} has no holder", lease_name(facts)),
             kSeeReplicas}};
  }
  check_holder(facts, findings);
  check_renewal(facts, findings);
  return or_ok(std::move(findings), fmt::format("the Lease {} is held by \"{}\"", lease_name(facts),
                                                facts.lease->holder));
}

Findings check_endpoints(const Facts& facts) {
  Findings findings;
  const std::string service = fmt::format("{}/{}", facts.name_space, facts.service);
  if (facts.service_name.absent()) {
    return {
        {Level::kOk, fmt::format("there is no Service {}: kube-scheduler calls the extender at an "
                                 "address",
                                 service)}};
  }
  if (!known_or_add(facts.service_name, findings)) return findings;
  if (!known_or_add(facts.slices, findings)) return findings;
  std::vector<std::string> addresses;
  for (const SliceFacts& slice : facts.slices.value()) {
    std::ranges::copy(slice.addresses, std::back_inserter(addresses));
  }
  if (addresses.empty()) {
    return {{Level::kError,
             fmt::format("the EndpointSlices of the Service {} have no address, so that "
                         "kube-scheduler reaches no extender",
                         service),
             kSeeEndpoints}};
  }
  if (!facts.lease.known() || !facts.extender_pods.known()) return findings;
  const ProgramPod* const leader = pod_of_holder(facts.extender_pods.value(), facts.lease->holder);
  if (leader == nullptr || leader->address.empty()) {
    return {
        {Level::kUnknown,
         fmt::format("the Service {} has the addresses {}, and the leader's address is not known",
                     service, fmt::join(addresses, ", "))}};
  }
  for (const std::string& address : addresses) {
    if (address == leader->address) continue;
    add_grouped(findings, address, Level::kError,
                fmt::format("the Service {} points at an address that is not the one of the leader "
                            "{} ({})",
                            service, to_string(leader->ref), leader->address),
                kRemoveEndpoints);
  }
  return or_ok(std::move(findings), fmt::format("the Service {} points at the leader {}", service,
                                                to_string(leader->ref)));
}

}  // namespace mgpu::kubectl
