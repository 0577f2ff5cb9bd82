// Limits of resources and annotations.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mgpu {

// The name in an annotation key has at most 63 characters (apimachinery
// util/validation/validation.go, qualifiedNameMaxLength), of which "gpu-index-container-" takes 20.
// The binding subresource does not validate it, but every later update of the pod does.
inline constexpr std::size_t kContainerNameMax = 63 - 20;
inline constexpr std::int32_t kCardIndexMax = 1023;
inline constexpr std::size_t kCardsPerNodeMax = 64;
// The containers of a pod that request cards.
inline constexpr std::size_t kGpuContainersPerPodMax = 64;
inline constexpr std::size_t kSelectorEntriesMax = 64;
// Linux has at most 1,024 NUMA nodes (CONFIG_NODES_SHIFT).
inline constexpr std::int32_t kNumaNodeMax = 1023;
// The node annotation with the cards: 64 cards of 200 bytes and their links are 15 KiB.
inline constexpr std::size_t kCardsAnnotationBytesMax = 64 * 1024;
// A UUID or name from NVML (NVML_DEVICE_UUID_V2_BUFFER_SIZE and others).
inline constexpr std::size_t kCardTextMax = 96;
// 16 TiB; prevents overflows of the sums over a cluster.
inline constexpr std::int64_t kCardMemoryMiBMax = std::int64_t{1} << 24;
// The compute of a card that pods may hold in sum, in percent: ten times that of the card. A node
// with kCardsPerNodeMax such cards offers 64,000 devices to kubelet, a message of 1.2 MB of the 4
// MiB that it accepts.
inline constexpr std::int64_t kCardCoreMax = 1'000;
inline constexpr std::size_t kProfileProblemMax = 512;
// Resource quotas use "requests.<domain>", which is a DNS subdomain of at most 253 characters.
inline constexpr std::size_t kResourceDomainMax = 253 - 9;
// Canonical quantities have at most about 30 characters.
inline constexpr std::size_t kQuantityBytesMax = 256;

}  // namespace mgpu
