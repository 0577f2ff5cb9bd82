// Bounds of texts and small files, with their reasons.
#pragma once

#include <cstddef>

namespace mgpu {

// Of a value from outside, in an error sentence and in a log field.
inline constexpr std::size_t kQuotedValueMax = 100;
inline constexpr std::size_t kLogValueMax = 1024;
// Of a sentence that is kept with an object; some quote a value of a user or a driver.
inline constexpr std::size_t kKeptSentenceBytesMax = 512;
// A kubeconfig, certificate, key or token. A bundle of all public roots has some 220 KiB.
inline constexpr std::size_t kCredentialFileBytesMax = std::size_t{1} << 20;

}  // namespace mgpu
