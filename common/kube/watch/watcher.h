// List and watch as a state machine without I/O, clock or randomness. The reflector calls it with
// the answers of the transport and takes the actions that it returns.
//
//            last page                 stream open
//   Listing ------------> Listed(rv) --------------> Watching(rv) --+
//    ^  ^ |  410 Gone        | ^                        |           | line: apply, rv moves on
//    |  | +--> next page     | |  stream ended          |<----------+
//    |  |                    | +------------------------+
//    |  +---- 410 Gone ------+------ERROR 410 line------+
//    |
//   Backoff: after 429, 5xx, a lost connection or a silent watch the watcher waits and then
//   continues in the state that it left. The wait doubles up to kBackoffMax, or up to
//   kBackoffUnsentMax where the API server cannot be reached. It is jittered, and is reset after
//   kBackoffResetAfter without a failure.
//
// A watch that the server ends regularly is opened again at once, unless it was short and brought
// no event. The first 410 leads to a relist at once, repeated ones back off.
//
// The events of one relist are kRelistBegin, kRelistObject*, kRelistEnd. An object that is not
// among them no longer exists. Until kRelistEnd the consumer keeps its earlier objects. A relist
// that breaks off (410 on a later page) is followed by another kRelistBegin, which starts over.
//
// A line that cannot be read is one object that cannot be read: it is reported and skipped, and the
// watch continues. Only many such lines in a row are treated as a failure of the server, and lead
// to a relist. A page that is too long is requested again with fewer objects (kPageDivisor).
//
// After kube-rs watcher.rs (form) and client-go tools/cache/reflector.go (cases).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/executor.h"
#include "common/kube/limits.h"
#include "common/kube/request.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

struct WatchEvent {
  enum class Kind { kRelistBegin, kRelistObject, kRelistEnd, kApply, kDelete };
  Kind kind;
  std::string object;  // empty for kRelistBegin and kRelistEnd
  Encoding encoding = Encoding::kJson;
};

// What the reflector must do next.
struct WatchAction {
  enum class Kind {
    kNone,   // continue to read
    kList,   // send `request`, then call on_list
    kWatch,  // close any stream, open one with `request`, then on_line..., on_end
    kWait,   // close any stream, wait for `delay`, then call on_waited
  };
  Kind kind = Kind::kNone;
  Request request;
  Duration delay{0};
};

struct WatchStep {
  std::vector<WatchEvent> events;  // in order, to be delivered before the action is taken
  WatchAction action;
  std::string problem;     // one sentence for the log; empty if there is no problem
  std::string unreadable;  // which object of a line was skipped, and why; usually empty
};

class Watcher {
 public:
  explicit Watcher(Resource resource) : resource_(std::move(resource)) {}

  WatchStep start();
  // `now` never goes back from call to call; `random` is uniform in [0, 1).
  WatchStep on_list(const Response& response, Instant now, double random);
  // Before the lines, which have this encoding.
  void on_open(Encoding encoding) { encoding_ = encoding; }
  WatchStep on_line(std::string_view line, Instant now, double random);
  WatchStep on_end(const Response& response, Instant now, double random);
  // Called if nothing was received for kWatchSilenceMax.
  WatchStep on_silence(Instant now, double random);
  WatchStep on_waited(Instant now, double random);

  // A relist has been completed at least once.
  bool synced() const { return synced_; }

 private:
  enum class State { kListing, kListed, kWatching };

  WatchStep list_page() const;
  WatchStep open_watch(Instant now, double random);
  WatchStep take_page(const Response& response, Instant now, double random);
  WatchStep skip_line(std::string_view line, const std::string& why, Instant now, double random);
  void advance_to(std::string resource_version);
  WatchStep relist(const std::string& why, Instant now, double random);
  // The limits of a wait.
  struct Wait {
    Duration least{0};
    Duration most{kBackoffMax};
  };
  static Wait wait_after(const Response& response);
  WatchStep back_off(std::string problem, Wait limits, Instant now, double random);
  void forget_page();
  bool is_backoff_reset(Instant now) const;

  Resource resource_;
  State state_ = State::kListing;
  std::string resource_version_;
  std::string continue_token_;
  bool relist_begun_ = false;
  bool synced_ = false;
  Duration next_backoff_{0};
  Instant last_failure_{};
  Instant watch_opened_{};
  Encoding encoding_ = Encoding::kJson;      // of the watch that is open
  bool watch_advanced_ = false;              // resource_version_ changed since the watch was opened
  std::uint32_t watch_refusals_ = 0;         // in a row
  std::uint32_t unreadable_lines_ = 0;       // in a row
  std::uint32_t page_size_ = kListPageSize;  // of this relist
};

}  // namespace mgpu::kube
