// Limits of texts and small files.
#pragma once

#include <cstddef>

namespace mgpu {

// The longest value that is shown in an error sentence, and in a log field.
inline constexpr std::size_t kQuotedValueMax = 100;
inline constexpr std::size_t kLogValueMax = 1024;
// The value of a label of a metric. The longest name of Kubernetes has 253 bytes.
inline constexpr std::size_t kLabelValueBytesMax = 256;
// A sentence that is stored with an object; it may quote a value from a user or a driver.
inline constexpr std::size_t kKeptSentenceBytesMax = 512;
// A kubeconfig, certificate, key or token. A bundle of all public root CAs has about 220 KiB.
inline constexpr std::size_t kCredentialFileBytesMax = std::size_t{1} << 20;

}  // namespace mgpu
