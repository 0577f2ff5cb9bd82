// Bounds of what stands on Pods and Nodes, with their reasons.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu {

// The name part of an annotation key may have 63 characters (apimachinery
// util/validation/validation.go, qualifiedNameMaxLength) and ours starts with
// "gpu-index-container-" (20). The binding subresource does not check it, every later update does.
inline constexpr std::size_t kContainerNameMax = 63 - 20;
inline constexpr std::int32_t kCardIndexMax = 1023;
inline constexpr std::size_t kCardsPerNodeMax = 64;
// A pod may have any number of containers; more that ask for cards than this is refused.
inline constexpr std::size_t kGpuContainersPerPodMax = 64;
inline constexpr std::size_t kSelectorEntriesMax = 64;
// The node annotation that lists the cards: 64 cards of 200 bytes are 13 KiB.
inline constexpr std::size_t kCardsAnnotationBytesMax = 64 * 1024;
// What NVML gives for a UUID or a name (NVML_DEVICE_UUID_V2_BUFFER_SIZE and its like).
inline constexpr std::size_t kCardTextMax = 96;
// 16 TiB: a cluster's sums stay far from overflow, whatever its nodes claim.
inline constexpr std::int64_t kCardMemoryMiBMax = std::int64_t{1} << 24;
// Resource quotas write "requests.<domain>/<name>", whose prefix is a DNS subdomain of at most 253.
inline constexpr std::size_t kResourceDomainMax = 253 - 9;
// Canonical quantities have at most some 30 characters.
inline constexpr std::size_t kQuantityBytesMax = 256;

}  // namespace mgpu
