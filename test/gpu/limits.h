// Limits of a fake machine, with their reasons.
#pragma once

#include <cstdint>

namespace mgpu::fake_gpu {

// The largest servers have 16 cards.
inline constexpr int kCardsMax = 16;
// Cards and MIG devices. A card has up to 7 of these (MIG User Guide, "Supported GPUs").
inline constexpr int kDevicesMax = 8 * kCardsMax;
// Processes that use the machine at the same time. MPS allows 48 clients for each card.
inline constexpr int kProcessesMax = 256;
// Amounts of memory that processes share at the same time.
inline constexpr int kSharedMax = 1024;
// XIDs of a card that a scenario may begin with, and that wait for somebody to read them.
inline constexpr int kXidsMax = 16;
// Kernels of one process that run at the same time in virtual time. An H200 runs 128.
inline constexpr int kRunningMax = 64;
// How long one process has a card in virtual time while others want it; not measured.
inline constexpr std::uint64_t kSliceNanoseconds = 2'000'000;
// For how long NVML counts the time with kernels, in virtual time (nvmlUtilization_t: up to 1 s).
inline constexpr std::uint64_t kSampleNanoseconds = 1'000'000'000;
// Of a card in virtual time.
inline constexpr int kWholeWidth = 1'000;
// What a card or an allocation may have, so that no sum of them overflows.
inline constexpr std::uint64_t kMemoryMax = std::uint64_t{1} << 48;
// A scenario of 16 cards has some 5 KB.
inline constexpr std::uint64_t kScenarioBytesMax = std::uint64_t{1} << 16;

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace mgpu::fake_gpu
