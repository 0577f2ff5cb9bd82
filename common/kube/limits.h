// Bounds of talking to the API server, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::kube {

inline constexpr std::uint32_t kListPageSize = 500;
inline constexpr std::chrono::milliseconds kBackoffFirst{
    800};  // client-go tools/cache/reflector.go
inline constexpr std::chrono::milliseconds kBackoffMax{30'000};
inline constexpr std::chrono::seconds kBackoffResetAfter{120};
inline constexpr std::chrono::seconds kWatchTimeoutMin{300};  // client-go: 5 to 10 minutes
inline constexpr std::chrono::seconds kWatchTimeoutMax{600};
// Bookmarks come about once a minute; a watch without a byte for three of them is dead.
inline constexpr std::chrono::seconds kWatchSilenceMax{180};
// An object has at most 1.5 MiB in etcd. JSON writes "<", which is one byte there, as six: 9.4 MB.
inline constexpr std::size_t kWatchLineBytesMax = std::size_t{16} << 20;
// What is kept of a longer one: its name and version stand at its beginning.
inline constexpr std::size_t kWatchLineBytesKept = std::size_t{64} << 10;
// Unreadable lines in a row after which it is not one object that is the trouble, but the server.
inline constexpr std::uint32_t kUnreadableLinesMax = 64;
// Sentences about objects that cannot be read, so that each is logged once.
inline constexpr std::size_t kUnreadableRemembered = 1'024;
// A page of 500 ordinary pods has 10 MiB. A longer one is asked for again with fewer objects.
inline constexpr std::size_t kApiResponseBytesMax = std::size_t{64} << 20;
inline constexpr std::chrono::seconds kApiRequestTimeout{30};
inline constexpr std::chrono::seconds kApiConnectTimeout{10};
// A watch that ends this soon without having moved on is a failure (client-go does the same), so
// that a server or proxy which closes every watch at once is not asked without end.
inline constexpr std::chrono::seconds kWatchShort{1};
// A server that was restored from an older backup may refuse a resourceVersion for ever, with
// another status than 410: after so many refusals in a row the collection is listed again.
inline constexpr std::uint32_t kWatchRefusalsMax = 5;
// Of the API server's own sentence; admission webhooks may write pages.
inline constexpr std::size_t kStatusMessageShown = 1024;
// Requests at the API server at once, each on a connection; the others wait their turn.
inline constexpr std::size_t kApiConnectionsMax = 128;
inline constexpr std::size_t kApiRequestsInFlightMax = 1024;
inline constexpr std::chrono::seconds kTokenRereadInterval{60};
inline constexpr std::chrono::seconds kRetryAfterMax{60};
// simdjson keeps buffers of some six times the largest message it has read; a thread gives them
// back after a message above this. A filter over 5,000 nodes has about 120 KiB.
inline constexpr std::size_t kJsonParserKeptBytes = std::size_t{2} << 20;

}  // namespace mgpu::kube
