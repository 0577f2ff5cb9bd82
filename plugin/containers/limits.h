// Bounds of starting containers and of looking after their records, with their reasons.
#pragma once

#include <chrono>

namespace mgpu::plugin {

// kubelet limits PreStartContainer to 30 s (devicemanager/endpoint.go); an answer must be there
// before.
inline constexpr std::chrono::milliseconds kPreStartBudget{20'000};
// How long a PreStart waits for news (a watch that lags, a share of an ended pod) before it
// refuses; kubelet asks again after 10 to 15 s.
inline constexpr std::chrono::milliseconds kPreStartTimeout{5'000};
inline constexpr std::chrono::milliseconds kPreStartPoll{100};
// Records of pods that are gone are looked for so often.
inline constexpr std::chrono::milliseconds kRecordCollectPeriod{10'000};

}  // namespace mgpu::plugin
