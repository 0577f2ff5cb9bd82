#include "common/kube/watch/watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/kube/limits.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"

namespace mgpu::kube {
namespace {

constexpr int kGone = 410;

// Between half of `backoff` and all of it, so that clients which failed together do not try again
// together.
Duration jittered(Duration backoff, double random) {
  const double share = 0.5 + std::clamp(random, 0.0, 1.0) / 2;
  return Duration(static_cast<Duration::rep>(static_cast<double>(backoff.count()) * share));
}

Duration retry_after(const Response& response) {
  return std::clamp(response.retry_after.value_or(Duration(0)), Duration(0),
                    Duration(kRetryAfterMax));
}

std::chrono::seconds watch_timeout(double random) {
  const auto range = kWatchTimeoutMax - kWatchTimeoutMin;
  const double part = static_cast<double>(range.count()) * std::clamp(random, 0.0, 1.0);
  return kWatchTimeoutMin + std::chrono::seconds(static_cast<std::int64_t>(part));
}

// "Expired" since Kubernetes 1.18, "Gone" before; both with code 410.
bool is_gone(const Status& status) {
  return status.code == kGone || status.reason == "Expired" || status.reason == "Gone";
}

}  // namespace

WatchStep Watcher::start() {
  MGPU_CHECK(state_ == State::kListing && !relist_begun_, "watcher was started before");
  return list_page();
}

WatchStep Watcher::on_list(const Response& response, Instant now, double random) {
  MGPU_CHECK(state_ == State::kListing, "a list answer while not listing");
  if (response.ok()) return take_page(response, now, random);
  const std::string why = fmt::format("list {}: {}", resource_.path, answer_text(response));
  if (response.failure && response.failure->too_large && page_size_ > 1) {
    page_size_ = std::max(1U, page_size_ / kPageDivisor);
    WatchStep step = list_page();
    step.problem = fmt::format("{}; it is requested again with {} objects", why, page_size_);
    return step;
  }
  // Only a continue token can be too old. A first page with 410 is no reason to try again at once.
  if (response.status == kGone && !continue_token_.empty()) return relist(why, now, random);
  return back_off(why, wait_after(response), now, random);
}

WatchStep Watcher::take_page(const Response& response, Instant now, double random) {
  auto page = response.encoding == Encoding::kProtobuf ? read_pod_list_protobuf(response.body)
                                                       : read_list_page(response.body);
  if (!page) {
    return back_off(fmt::format("list {}: {}", resource_.path, page.error().message), {}, now,
                    random);
  }
  WatchStep out;
  if (!std::exchange(relist_begun_, true)) {
    out.events.push_back({WatchEvent::Kind::kRelistBegin, {}, {}});
  }
  for (std::string& item : page->items) {
    out.events.push_back({WatchEvent::Kind::kRelistObject, std::move(item), response.encoding});
  }
  if (response.body.size() <= kShortPageBytes) {
    page_size_ = std::min(page_size_ * 2, kListPageSize);
  }
  continue_token_ = std::move(page->continue_token);
  if (!continue_token_.empty()) {
    out.action = list_page().action;
    return out;
  }
  out.events.push_back({WatchEvent::Kind::kRelistEnd, {}, {}});
  relist_begun_ = false;
  synced_ = true;
  page_size_ = kListPageSize;
  resource_version_ = std::move(page->resource_version);
  out.action = open_watch(now, random).action;
  return out;
}

WatchStep Watcher::on_line(std::string_view line, Instant now, double random) {
  MGPU_CHECK(state_ == State::kWatching, "a line while not watching");
  auto read =
      encoding_ == Encoding::kProtobuf ? read_pod_event_protobuf(line) : read_watch_line(line);
  if (!read) return skip_line(line, read.error().message, now, random);
  unreadable_lines_ = 0;
  using Kind = WatchLine::Kind;
  if (read->kind == Kind::kError) {
    const std::string why = fmt::format("watch {}: {}", resource_.path, text_of(read->status));
    if (is_gone(read->status)) return relist(why, now, random);
    ++watch_refusals_;
    return back_off(why, {}, now, random);
  }
  watch_refusals_ = 0;
  advance_to(std::move(read->resource_version));
  if (read->kind == Kind::kBookmark) return {};
  WatchStep step;
  step.events.push_back(
      {read->kind == Kind::kDeleted ? WatchEvent::Kind::kDelete : WatchEvent::Kind::kApply,
       std::move(read->object), encoding_});
  return step;
}

void Watcher::advance_to(std::string resource_version) {
  if (resource_version.empty() || resource_version == resource_version_) return;
  resource_version_ = std::move(resource_version);
  watch_advanced_ = true;
}

WatchStep Watcher::skip_line(std::string_view line, const std::string& why, Instant now,
                             double random) {
  // A text in an event in protobuf, such as an annotation, may look like JSON.
  const auto object = encoding_ == Encoding::kJson ? read_line_beginning(line) : std::nullopt;
  if (!object || ++unreadable_lines_ >= kUnreadableLinesMax) {
    unreadable_lines_ = 0;
    return relist(fmt::format("watch {}: {}", resource_.path, why), now, random);
  }
  // Otherwise the line would be sent again each time that the watch is opened.
  advance_to(object->resource_version);
  WatchStep step;
  step.unreadable = fmt::format("{} in a watch of {}: {}", object->name, resource_.path, why);
  return step;
}

WatchStep Watcher::on_end(const Response& response, Instant now, double random) {
  MGPU_CHECK(state_ == State::kWatching, "the end of a watch while not watching");
  if (response.ok() && !response.failure) {
    watch_refusals_ = 0;
    if (watch_advanced_ || now - watch_opened_ >= kWatchShort) return open_watch(now, random);
    return back_off(fmt::format("watch {}: it ended at once without any event", resource_.path), {},
                    now, random);
  }
  const std::string why = fmt::format("watch {}: {}", resource_.path, answer_text(response));
  if (response.failure) return back_off(why, wait_after(response), now, random);
  if (response.status == kGone) return relist(why, now, random);
  ++watch_refusals_;
  return back_off(why, wait_after(response), now, random);
}

WatchStep Watcher::on_silence(Instant now, double random) {
  MGPU_CHECK(state_ == State::kWatching, "silence of a watch while not watching");
  return back_off(fmt::format("watch {}: nothing was received for {} s", resource_.path,
                              kWatchSilenceMax.count()),
                  {}, now, random);
}

WatchStep Watcher::on_waited(Instant now, double random) {
  MGPU_CHECK(state_ != State::kWatching, "the end of a wait while watching");
  if (state_ == State::kListed && watch_refusals_ >= kWatchRefusalsMax) forget_page();
  return state_ == State::kListing ? list_page() : open_watch(now, random);
}

WatchStep Watcher::list_page() const {
  WatchStep step;
  step.action.kind = WatchAction::Kind::kList;
  step.action.request = list(resource_, page_size_, continue_token_);
  return step;
}

WatchStep Watcher::open_watch(Instant now, double random) {
  state_ = State::kWatching;
  watch_opened_ = now;
  watch_advanced_ = false;
  WatchStep step;
  step.action.kind = WatchAction::Kind::kWatch;
  step.action.request = watch(resource_, resource_version_, watch_timeout(random));
  return step;
}

WatchStep Watcher::relist(const std::string& why, Instant now, double random) {
  forget_page();
  if (!is_backoff_reset(now)) return back_off(why, {}, now, random);
  next_backoff_ = kBackoffFirst;
  last_failure_ = now;
  WatchStep step = list_page();
  step.problem = why;
  return step;
}

void Watcher::forget_page() {
  state_ = State::kListing;
  continue_token_.clear();
  relist_begun_ = false;
  watch_refusals_ = 0;
}

// True after a long time without a failure, and before the first one.
bool Watcher::is_backoff_reset(Instant now) const {
  return next_backoff_ == Duration(0) || now - last_failure_ >= kBackoffResetAfter;
}

Watcher::Wait Watcher::wait_after(const Response& response) {
  const bool unsent = response.failure && !response.failure->sent;
  return {retry_after(response), unsent ? kBackoffUnsentMax : kBackoffMax};
}

WatchStep Watcher::back_off(std::string problem, Wait limits, Instant now, double random) {
  if (state_ == State::kWatching) state_ = State::kListed;
  Duration backoff = is_backoff_reset(now) ? Duration(kBackoffFirst) : next_backoff_;
  backoff = std::min(backoff, limits.most);
  next_backoff_ = std::min(backoff * 2, Duration(kBackoffMax));
  WatchStep step;
  step.problem = std::move(problem);
  step.action.kind = WatchAction::Kind::kWait;
  step.action.delay = std::max(limits.least, jittered(backoff, random));
  // The next attempt is after the wait: the time without a failure counts from there.
  last_failure_ = now + step.action.delay;
  return step;
}

}  // namespace mgpu::kube
