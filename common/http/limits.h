// Bounds of the HTTP server, with their reasons. Those that a user may change are flags that start
// from these values.
#pragma once

#include <chrono>
#include <cstddef>

namespace mgpu::http {

inline constexpr std::size_t kHttpHeaderBytesMax = 16 * 1024;
inline constexpr std::size_t kHttpBodyBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kHttpConnectionsMax = 1024;
// kube-scheduler closes idle connections after 90 s (net/http, DefaultTransport) and does not
// repeat a POST that met a closed connection: ours must be the later one to close.
inline constexpr std::chrono::seconds kHttpIdleTimeout{150};
static_assert(kHttpIdleTimeout > std::chrono::seconds{90});
// From the first byte of a request to its last, and the same for writing an answer.
inline constexpr std::chrono::seconds kHttpTransferTimeout{20};
inline constexpr std::chrono::seconds kTlsHandshakeTimeout{10};
// After an answer that ends a connection, what the client still sends is read and dropped for this
// long: closing at once would reset the connection and could take the answer with it.
inline constexpr std::chrono::seconds kHttpLingerTimeout{5};
// After a failed accept (out of file descriptors), so that the listener does not spin.
inline constexpr std::chrono::milliseconds kHttpAcceptRetry{100};
inline constexpr std::size_t kHttpReadBytes = 64 * 1024;     // of one read while a request arrives
inline constexpr std::size_t kHttpIdleReadBytes = 4 * 1024;  // of the read that waits for one
// A Content-Length is only a promise: no more than this is allocated before the bytes are there.
inline constexpr std::size_t kHttpBodyReserveMax = std::size_t{1} << 20;
inline constexpr std::chrono::seconds kDrainTimeout{10};

}  // namespace mgpu::http
