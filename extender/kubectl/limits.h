// Limits of kubectl-mgpu, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::kubectl {

// An object's name has at most 253 bytes, and is shown whole.
inline constexpr std::size_t kShownNameMax = 253;
// A sentence that quotes a message of the API server or of a device plugin.
inline constexpr std::size_t kShownSentenceMax = 2'048;
// Objects that a table names for one finding. JSON has all of them.
inline constexpr std::size_t kShownObjectsMax = 5;

// Pages of one collection: a million objects. More are an API server that repeats its pages.
inline constexpr std::size_t kPagesMax = 2'000;
// Sentences about objects that could not be read.
inline constexpr std::size_t kUnreadableMax = 20;
// Nodes whose kubelet is queried for its configuration. Nodes of a group have the same one.
inline constexpr std::size_t kConfiguredNodesMax = 200;
// Namespaces with pods or a Lease of mgpu, of which the rights are asked. Tenants can make more.
inline constexpr std::size_t kNamespacesAskedMax = 200;
// Extenders that are queried, by one `kubectl port-forward` each.
inline constexpr std::size_t kReplicasMax = 8;

// Between two outputs of --watch. Each lists the nodes anew.
inline constexpr std::chrono::milliseconds kWatchInterval{2'000};

// Names that are proposed to a shell. A list with more is not read by users.
inline constexpr std::size_t kProposalsMax = 500;
inline constexpr std::chrono::seconds kProposalTimeout{3};  // for which the shell waits

// Nodes or pods that a command line names.
inline constexpr std::size_t kNodesNamedMax = 1'000;

// The extender places as many in one simulation.
inline constexpr std::int64_t kSimulatedReplicasMax = 1'000;

// Attempts to change an object that others change at the same time.
inline constexpr int kChangeAttemptsMax = 8;

// Device plugins that are queried, by one `kubectl port-forward` each, in total and at once.
inline constexpr std::size_t kPluginsMax = 200;
inline constexpr std::size_t kPluginsAtOnce = 8;

// Findings in the answer of one plugin. Its node may be compromised.
inline constexpr std::size_t kDriftItemsMax = 10'000;
// Sentences about what could not be read. They often have one cause.
inline constexpr std::size_t kProblemsShownMax = 5;

// Requests in flight at once. kube-apiserver by default lets a user have some tens of them.
inline constexpr std::size_t kRequestsAtOnce = 16;

// The time in which `kubectl port-forward` must print the port that it has chosen. A credential
// plugin may ask the user to log in meanwhile.
inline constexpr std::chrono::seconds kPortForwardTimeout{30};
// The time between SIGTERM and SIGKILL.
inline constexpr std::chrono::milliseconds kPortForwardEndTimeout{2'000};
// The part of its last line that is shown; it names the user, the right and the pod.
inline constexpr std::size_t kKubectlErrorMax = 1'024;
// Its output is a line for each address, and the errors of connections.
inline constexpr std::size_t kPortForwardOutputMax = std::size_t{16} << 10;

// What the checks accept.
//
// The header Date has whole seconds, and a request may take some.
inline constexpr std::chrono::seconds kClockDifferenceMax{10};
// A Lease may be renewed this much later: clocks differ by less.
inline constexpr std::chrono::seconds kLeaseSlack{5};
// kube-scheduler needs a moment for a new pod.
inline constexpr std::chrono::seconds kWaitingPodAge{30};
// A certificate is renewed by its issuer some weeks before its end, and by hand within a week.
inline constexpr std::chrono::hours kCertificateLeft{14 * 24};
// The CA is renewed by hand, on each machine with a kube-scheduler.
inline constexpr std::chrono::hours kAuthorityLeft{180 * 24};

}  // namespace mgpu::kubectl
