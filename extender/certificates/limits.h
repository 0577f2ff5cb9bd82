// Lifetimes of certificates and intervals of their renewal, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::extender {

// kube-scheduler reads the certificate of the authority at its start only, and as a static pod it
// reads a file that somebody has copied to the host.
inline constexpr std::chrono::days kAuthorityLife{3653};
inline constexpr std::chrono::days kCertificateLife{365};
// As long as its authority: a kube-scheduler outside of the cluster has a copy of the file, and
// would stop one day where nobody copies it again.
inline constexpr std::chrono::days kClientLife = kAuthorityLife;
// Certificates are valid from this time before they are made, for clocks that are slow.
inline constexpr std::chrono::days kClockTolerance{1};
// A certificate is renewed when this part of its life is left.
inline constexpr int kRenewalPart = 3;
// A certificate that would end before this gain of time is not renewed: its authority ends first.
inline constexpr std::chrono::days kRenewalGainMin{1};
// Before the authority ends, everything that trusts it needs another one.
inline constexpr std::chrono::days kAuthorityWarning{365};

inline constexpr std::size_t kServerNamesMax = 64;
inline constexpr std::size_t kServerNameBytesMax = 253;  // of a DNS name
inline constexpr std::size_t kAuthoritiesMax = 16;       // certificates in ca.crt

// The Secret is read again at this interval, and not watched: one GET a minute costs the API server
// less than a watch, needs only the right to get this one object, and certificates change months
// before they end.
inline constexpr std::chrono::seconds kSecretReadInterval{60};
inline constexpr std::chrono::seconds kSecretRetryFirst{1};
inline constexpr std::chrono::seconds kSecretRequestTimeout{10};
// A problem that stays is logged again after this time.
inline constexpr std::chrono::hours kCertificateProblemInterval{1};

}  // namespace mgpu::extender
