// Limits of texts, small files, the log and the heartbeat.
#pragma once

#include <chrono>
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

// Lines that wait until they are written. While nobody reads standard error, the oldest ones are
// dropped. A line has about 200 bytes, and with long values a few KiB.
inline constexpr std::size_t kLogLinesMax = 1024;
// A process that ends waits so long until these lines are written.
inline constexpr std::chrono::milliseconds kLogEndTimeout{1'000};
inline constexpr std::chrono::milliseconds kLogEndPoll{1};

// A task runs so often in an executor, which shows that it runs. A task of the executor may take
// some hundred milliseconds where processors are overloaded.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};
inline constexpr std::chrono::milliseconds kHeartbeatMissed{2'500};

}  // namespace mgpu
