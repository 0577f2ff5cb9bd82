// Limits of the HTTP server. Some are the default values of flags.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::http {

inline constexpr std::size_t kHttpHeaderBytesMax = 16 * 1024;
// The names of 15,000 nodes have 0.5 MB, and a pod has at most 1.5 MiB in etcd. Reading a message
// takes several times its size.
inline constexpr std::size_t kHttpBodyBytesMax = std::size_t{4} << 20;
inline constexpr std::size_t kHttpConnectionsMax = 1024;
// kube-scheduler has one connection for each of its requests that run at the same time.
inline constexpr std::size_t kHttpConnectionsPerAddressMax = 64;
// Connections that were chosen to be closed for others and are still open.
inline constexpr std::size_t kHttpClosingMax = 64;
// After the response to a request, a connection that is older is closed. This bounds the time for
// which a client continues after its certificate authority was removed.
inline constexpr std::chrono::minutes kHttpConnectionAgeMax{10};
inline constexpr std::size_t kCertificateNamesMax = 64;  // of one certificate; others do not count
// kube-scheduler closes idle connections after 90 s (net/http, DefaultTransport). It does not retry
// a POST that failed on a closed connection, so the server must not close it first.
inline constexpr std::chrono::seconds kHttpIdleTimeout{150};
static_assert(kHttpIdleTimeout > std::chrono::seconds{90});
// From the first byte of a request to the last, and likewise for a response.
inline constexpr std::chrono::seconds kHttpTransferTimeout{20};
inline constexpr std::chrono::seconds kTlsHandshakeTimeout{10};
// How long the data of a client is read and discarded after the last response on a connection.
// Closing at once would reset the connection, and the client could lose the response.
inline constexpr std::chrono::seconds kHttpGraceTimeout{5};
// The delay after a failed accept, such as one without file descriptors.
inline constexpr std::chrono::milliseconds kHttpAcceptRetry{100};
inline constexpr std::size_t kHttpReadBytes = 64 * 1024;     // one read within a request
inline constexpr std::size_t kHttpIdleReadBytes = 4 * 1024;  // the read that waits for a request
// A client can send any Content-Length: no more than this is allocated before the bytes arrive.
inline constexpr std::size_t kHttpBodyReserveMax = std::size_t{1} << 20;
inline constexpr std::chrono::seconds kDrainTimeout{10};
// Requests of one HTTP/2 connection at the same time. Clients open another connection for more; one
// that has acknowledged this number and exceeds it loses its connection.
inline constexpr std::uint32_t kHttp2StreamsMax = 128;
// What a client may send before it is read: of one request, and of all of a connection.
inline constexpr std::int32_t kHttp2WindowBytes = 1 << 20;
// One read: a frame has at most this much (RFC 9113, 6.5.2).
inline constexpr std::size_t kHttp2ReadBytes = 16 * 1024;
// One write: four frames, because a response of another stream waits until they are sent.
inline constexpr std::size_t kHttp2WriteBytes = 64 * 1024;
// Streams that a client may have reset at once, and each second (CVE-2023-44487, CVE-2025-8671).
// kube-scheduler resets a stream when its httpTimeout has passed. nghttp2 limits CONTINUATION
// frames (CVE-2024-28182).
inline constexpr std::uint64_t kHttp2ResetsMax = 1000;
inline constexpr std::uint64_t kHttp2ResetsPerSecond = 33;
inline constexpr std::size_t kHttp2MalformedMax = 1000;  // frames of one connection
// Frames that wait because the client of one connection does not read: answers to PING and
// SETTINGS, and frames of all kinds.
inline constexpr std::size_t kHttp2UnreadAcksMax = 1000;
inline constexpr std::size_t kHttp2UnreadFramesMax = 4096;
// Bytes of responses of one HTTP/2 connection that have not been given to the socket. One with more
// is closed, also if its client reads: kube-scheduler waits for a large response (filter,
// prioritize) before it sends the next request.
inline constexpr std::size_t kHttp2UnsentBytesMax = std::size_t{32} << 20;

}  // namespace mgpu::http
