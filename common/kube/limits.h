// Limits of the communication with the API server, with their reasons.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::kube {

inline constexpr std::uint32_t kListPageSize = 500;
// A dump of many nodes and pods.
inline constexpr std::size_t kManifestBytesMax = std::size_t{64} << 20;
// Objects that one sentence names, for example those that are not read.
inline constexpr std::size_t kObjectsNamedMax = 10;
// Files in $KUBECONFIG. People have some, and a script could name any number.
inline constexpr std::size_t kKubeconfigFilesMax = 32;
// client-go tools/cache/reflector.go.
inline constexpr std::chrono::milliseconds kBackoffFirst{800};
inline constexpr std::chrono::milliseconds kBackoffMax{30'000};
inline constexpr std::chrono::seconds kBackoffResetAfter{120};
// The longest wait if no connection was made, which costs the API server nothing. After its
// restart, decisions are late by as much.
inline constexpr std::chrono::milliseconds kBackoffUnsentMax{5'000};
inline constexpr std::chrono::seconds kWatchTimeoutMin{300};  // client-go: 5 to 10 minutes
inline constexpr std::chrono::seconds kWatchTimeoutMax{600};
// Bookmarks are sent about once a minute. After a minute and a half without a byte a watch counts
// as lost; a bookmark that is only late costs one more request.
inline constexpr std::chrono::seconds kWatchSilenceMax{90};
// The API server accepts objects of up to 3 MiB, and JSON writes "<", which is one byte there, as
// six: 18.9 MB. (etcd has a limit of 1.5 MiB, unless it is configured otherwise.)
inline constexpr std::size_t kWatchLineBytesMax = std::size_t{20} << 20;
// The part of a longer line that is kept. The object's name and version are at its beginning.
inline constexpr std::size_t kWatchLineBytesKept = std::size_t{64} << 10;
// After so many unreadable lines in a row the collection is listed again.
inline constexpr std::uint32_t kUnreadableLinesMax = 64;
// Messages about unreadable objects that are remembered, so that each is logged once.
inline constexpr std::size_t kUnreadableRemembered = 1'024;
// A page of 500 ordinary pods has up to 10 MiB, and a page of one object has no more than a line.
inline constexpr std::size_t kApiResponseBytesMax = kWatchLineBytesMax;
// A longer page is requested again with this part of the objects. After a page that is short, the
// next one has twice as many. So one more object that is long costs two pages, and not the rest of
// a large collection.
inline constexpr std::uint32_t kPageDivisor = 16;
inline constexpr std::size_t kShortPageBytes = kApiResponseBytesMax / 4;
inline constexpr std::chrono::seconds kApiRequestTimeout{30};
inline constexpr std::chrono::seconds kApiConnectTimeout{10};
// A watch that ends this soon without an event is a failure (client-go does the same), so that a
// server or proxy which closes every watch at once does not get requests without a pause.
inline constexpr std::chrono::seconds kWatchShort{1};
// A server that was restored from an older backup may refuse a resourceVersion for ever with
// another status than 410. After so many refusals in a row the collection is listed again.
inline constexpr std::uint32_t kWatchRefusalsMax = 5;
// Bytes of the server's own message in an error sentence. Admission webhooks may write pages.
inline constexpr std::size_t kStatusMessageShown = 1024;
// Requests that are in flight at once, each on its own connection. The others wait.
inline constexpr std::size_t kApiConnectionsMax = 128;
inline constexpr std::size_t kApiRequestsInFlightMax = 1024;
inline constexpr std::chrono::seconds kTokenRereadInterval{60};
inline constexpr std::chrono::seconds kRetryAfterMax{60};
// The time for a credential plugin that is not interactive, and for one that waits for its user,
// such as in a login with a browser.
inline constexpr std::chrono::seconds kExecTimeout{60};
inline constexpr std::chrono::minutes kExecInteractiveTimeout{10};
inline constexpr std::size_t kExecOutputBytesMax = std::size_t{1} << 20;
// The time between two runs of a plugin at least, after a failure or a refused credential.
inline constexpr std::chrono::seconds kExecRetryInterval{10};
// A plugin's last line or install hint in an error sentence.
inline constexpr std::size_t kExecTextShown = 300;
// Events whose count is kept, so that an equal one updates the same object.
inline constexpr std::size_t kEventsRememberedMax = 1'024;
// kubelet truncates its messages to the same length (core/v1 Event.message, apiserver validation).
inline constexpr std::size_t kEventMessageMax = 1'024;
inline constexpr std::size_t kEventsInFlightMax = 16;
// A new Event whose request failed is sent again after this time, then after twice the time, and so
// on, up to the longest: for an hour. The API server keeps Events for as long.
inline constexpr std::chrono::milliseconds kEventRetryMin{10'000};
inline constexpr std::chrono::milliseconds kEventRetryMax{600'000};
inline constexpr int kEventTriesMax = 12;
// simdjson's buffers are about six times as large as the largest message. A thread frees them after
// a message above this size. A filter request for 5,000 nodes has about 120 KiB.
inline constexpr std::size_t kJsonParserKeptBytes = std::size_t{2} << 20;

}  // namespace mgpu::kube
