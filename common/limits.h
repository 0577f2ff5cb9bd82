// Every bound of the system, with its reason. Bounds a user may change are flags that start from
// these values.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace mgpu::limits {

using std::chrono::milliseconds;
using std::chrono::seconds;

// --- the Pod/Node contract -----------------------------------------------------------------------

// The name part of an annotation key may have 63 characters (apimachinery
// util/validation/validation.go, qualifiedNameMaxLength) and ours starts with
// "gpu-index-container-" (20). The binding subresource does not check it, every later update does.
inline constexpr std::size_t kContainerNameMax = 63 - 20;
inline constexpr std::int32_t kCardIndexMax = 1023;
inline constexpr std::size_t kCardsPerNodeMax = 64;
// A pod may have any number of containers; more that ask for cards than this is refused.
inline constexpr std::size_t kGpuContainersPerPodMax = 64;
inline constexpr std::size_t kSelectorEntriesMax = 64;
// The node annotation that lists the cards: 64 cards of 200 bytes are 13 KiB.
inline constexpr std::size_t kCardsAnnotationBytesMax = 64 * 1024;

// What NVML gives for a UUID or a name (NVML_DEVICE_UUID_V2_BUFFER_SIZE and its like).
inline constexpr std::size_t kCardTextMax = 96;
// 16 TiB: a cluster's sums stay far from overflow, whatever its nodes claim.
inline constexpr std::int64_t kCardMemoryMiBMax = std::int64_t{1} << 24;
// Resource quotas write "requests.<domain>/<name>", whose prefix is a DNS subdomain of at most 253.
inline constexpr std::size_t kResourceDomainMax = 253 - 9;
// Canonical quantities have at most some 30 characters.
inline constexpr std::size_t kQuantityBytesMax = 256;

// --- text ----------------------------------------------------------------------------------------

// Of a value from outside, in an error sentence and in a log field.
inline constexpr std::size_t kQuotedValueMax = 100;
inline constexpr std::size_t kLogValueMax = 1024;

// --- placement -----------------------------------------------------------------------------------

// Steps of the exact packing search for pods of several containers. One step is some 20 ns, so
// that the bound is a few milliseconds; pods of real life need fewer than a hundred.
inline constexpr std::uint32_t kPlacementStepsMax = 100'000;
// The same for all nodes of one filter together, so that no pod can hold the ledger for long.
inline constexpr std::uint32_t kFilterStepsMax = 2'000'000;

// --- HTTP server ---------------------------------------------------------------------------------

inline constexpr std::size_t kHttpHeaderBytesMax = 16 * 1024;
inline constexpr std::size_t kHttpBodyBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kHttpConnectionsMax = 1024;
// kube-scheduler closes idle connections after 90 s (net/http, DefaultTransport) and does not
// repeat a POST that met a closed connection: ours must be the later one to close.
inline constexpr seconds kHttpIdleTimeout{150};
static_assert(kHttpIdleTimeout > seconds{90});
// From the first byte of a request to its last, and the same for writing an answer.
inline constexpr seconds kHttpTransferTimeout{20};
inline constexpr seconds kTlsHandshakeTimeout{10};
// After an answer that ends a connection, what the client still sends is read and dropped for this
// long: closing at once would reset the connection and could take the answer with it.
inline constexpr seconds kHttpLingerTimeout{5};
// After a failed accept (out of file descriptors), so that the listener does not spin.
inline constexpr milliseconds kHttpAcceptRetry{100};
inline constexpr std::size_t kHttpReadBytes = 64 * 1024;     // of one read while a request arrives
inline constexpr std::size_t kHttpIdleReadBytes = 4 * 1024;  // of the read that waits for one
// A Content-Length is only a promise: no more than this is allocated before the bytes are there.
inline constexpr std::size_t kHttpBodyReserveMax = std::size_t{1} << 20;
inline constexpr seconds kDrainTimeout{10};

// --- API server client ---------------------------------------------------------------------------

inline constexpr std::uint32_t kListPageSize = 500;
inline constexpr milliseconds kBackoffFirst{800};  // client-go tools/cache/reflector.go
inline constexpr milliseconds kBackoffMax{30'000};
inline constexpr seconds kBackoffResetAfter{120};
inline constexpr seconds kWatchTimeoutMin{300};  // client-go: 5 to 10 minutes
inline constexpr seconds kWatchTimeoutMax{600};
// Bookmarks come about once a minute; a watch without a byte for three of them is dead.
inline constexpr seconds kWatchSilenceMax{180};
// Of what the in-memory API server takes. Kubernetes' own objects nest some 20 deep.
inline constexpr std::size_t kJsonDepthMax = 100;
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
inline constexpr seconds kApiRequestTimeout{30};
inline constexpr seconds kApiConnectTimeout{10};
// A watch that ends this soon without having moved on is a failure (client-go does the same), so
// that a server or proxy which closes every watch at once is not asked without end.
inline constexpr seconds kWatchShort{1};
// A server that was restored from an older backup may refuse a resourceVersion for ever, with
// another status than 410: after so many refusals in a row the collection is listed again.
inline constexpr std::uint32_t kWatchRefusalsMax = 5;
// Of the API server's own sentence; admission webhooks may write pages.
inline constexpr std::size_t kStatusMessageShown = 1024;
// Requests at the API server at once, each on a connection; the others wait their turn.
inline constexpr std::size_t kApiConnectionsMax = 128;
inline constexpr std::size_t kApiRequestsInFlightMax = 1024;
// A kubeconfig, certificate, key or token. A bundle of all public roots has some 220 KiB.
inline constexpr std::size_t kCredentialFileBytesMax = std::size_t{1} << 20;
inline constexpr seconds kTokenRereadInterval{60};
inline constexpr seconds kRetryAfterMax{60};

// --- extender ------------------------------------------------------------------------------------

// kube-scheduler waits 5 s for a verb; bind must have answered before.
inline constexpr milliseconds kBindTimeout{4'000};
inline constexpr std::size_t kBindsInFlight = 128;
inline constexpr std::size_t kBindsQueuedMax = 4096;
// How long an expected placement is believed: longer than any gap between filter and bind seen.
inline constexpr milliseconds kExpectationLife{1'000};
inline constexpr std::size_t kExpectationsMax = 4096;
// How long a refusal waits for a release that kube-scheduler may have heard of first. Watches run
// apart by milliseconds; a busy API server makes that tens.
inline constexpr milliseconds kRefusalHold{50};
inline constexpr milliseconds kRefusalHoldMax{150};
// Of kube-scheduler's time, at most; and how much of it may be used in one go.
inline constexpr int kRefusalHoldPercent = 10;
inline constexpr milliseconds kRefusalHoldAllowance{500};
inline constexpr std::size_t kRefusalsHeldMax = 256;
inline constexpr std::size_t kRefusalsRememberedMax = 16'384;
// kube-scheduler asks again within milliseconds of a release that it heard of by itself.
inline constexpr milliseconds kWakeDelay{1'000};
// While it still asks, whoever is owed a question may be next in its queue ...
inline constexpr milliseconds kWakeQuiet{500};
// ... but not for ever: no backoff of kube-scheduler's is longer (podMaxBackoffSeconds).
inline constexpr milliseconds kWakeDelayMax{10'000};
static_assert(kWakeDelay < kWakeDelayMax && kWakeQuiet < kWakeDelay);
// How often the ledger's releases are looked at while somebody waits.
inline constexpr milliseconds kWakeLook{500};
// Each wake makes kube-scheduler try all pods that no node fits, so that they must be few.
inline constexpr milliseconds kWakeInterval{1'000};
inline constexpr milliseconds kWakeTimeout{5'000};
// After a failure, doubled up to the second.
inline constexpr milliseconds kWakeRetryFirst{1'000};
inline constexpr milliseconds kWakeRetryMax{60'000};
// kube-scheduler asks about every pod once in five minutes, looking each half minute: who was not
// asked about for longer is no longer there.
inline constexpr milliseconds kWakeRememberedFor{360'000};
// As many as the refusals remembered beside them.
inline constexpr std::size_t kWakeListMax = kRefusalsRememberedMax;
// A share assumed without an outcome is looked at again after this long: the pod is read.
inline constexpr seconds kAssumedRecheck{10};
// An attempt that is still going on (a POST, then a GET) must not be taken for one in doubt.
static_assert(2 * kBindTimeout < kAssumedRecheck);
// After an API server's outage thousands of shares may be in doubt: so many pods are read at once.
inline constexpr std::size_t kRechecksInFlight = 16;
// Pods kept from filter for bind, some 5 KiB each: more than can lie between the two.
inline constexpr std::size_t kRememberedPodsMax = 4096;
// Objects of a relist that are applied under one hold of the ledger's lock: a millisecond or two.
inline constexpr std::size_t kRelistStep = 256;
// The sentence kept with a pod or node that drifts; some name a value of the user's.
inline constexpr std::size_t kDriftDetailBytesMax = 512;

// simdjson keeps buffers of some six times the largest message it has read; a thread gives them
// back after a message above this. A filter over 5,000 nodes has about 120 KiB.
inline constexpr std::size_t kJsonParserKeptBytes = std::size_t{2} << 20;

// --- mgpu-sim ------------------------------------------------------------------------------------

inline constexpr std::size_t kSimManifestBytesMax = std::size_t{64} << 20;
// Kubernetes objects nest to some 15 levels.
inline constexpr int kSimManifestDepthMax = 64;
inline constexpr std::size_t kSimManifestValuesMax = 20'000'000;
inline constexpr std::size_t kSimObjectsMax = 100'000;

// --- in-memory API server ------------------------------------------------------------------------

// kube-apiserver's own bound of a request (apiserver pkg/server/config.go, MaxRequestBodyBytes).
inline constexpr std::size_t kMemoryApiBodyBytesMax = std::size_t{3} << 20;
// etcd's bound of a value (--max-request-bytes).
inline constexpr std::size_t kMemoryApiObjectBytesMax = (std::size_t{3} << 20) / 2;
// kube-apiserver --min-request-timeout: a watch lasts one to two times as long.
inline constexpr seconds kMemoryApiWatchTimeoutMin{1800};

// --- inspection ----------------------------------------------------------------------------------

// A page of nodes: eight cards of some 250 bytes each make one node 2 KiB, one page 1 MiB.
inline constexpr std::size_t kInspectNodesDefault = 500;
inline constexpr std::size_t kInspectNodesMax = 5'000;
// Each node of an explanation is a search of its own.
inline constexpr std::size_t kExplainNodesDefault = 100;
inline constexpr std::size_t kExplainNodesMax = 1'000;
inline constexpr std::size_t kInspectDriftMax = 1'000;
// Of reading the pod to explain; the drain waits for it.
inline constexpr milliseconds kExplainTimeout{5'000};
static_assert(kExplainTimeout < kDrainTimeout);

}  // namespace mgpu::limits
