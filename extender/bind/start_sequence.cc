#include "extender/bind/start_sequence.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/ledger/limits.h"
#include "extender/verbs/pod_request.h"

namespace mgpu::extender {
namespace {

using Kind = kube::ApiError::Kind;

// No binding of the pod that was sent already can happen any more: the API server refuses it while
// the pod has a gate, whose removal changes the resourceVersion, and after its deletion has begun
// (kubernetes pkg/registry/core/pod/storage/storage.go, setPodNodeAndMetadata).
bool cannot_be_bound(const kube::Pod& pod) {
  return pod.gated || pod.metadata.being_deleted;
}

// Whether the pod cannot be changed, though the API server works: after `touches` that failed so.
bool is_of_this_pod(const kube::ApiError& failure, int touches) {
  if (failure.kind == Kind::kUnavailable) return false;
  return failure.kind == Kind::kRefused || touches + 1 >= kStartTouchesOfAPod;
}

}  // namespace

StartSequence::StartSequence(kube::Transport& transport, kube::Client& client,
                             const Contract& contract, const BindGuards& guards, Ledger& ledger,
                             Events events)
    : transport_(transport),
      client_(client),
      contract_(contract),
      guards_(guards),
      ledger_(ledger),
      events_(std::move(events)) {}

void StartSequence::start() {
  client_.executor().post(callbacks_.wrap([this] { check(); }));
}

// The reflector first waits for a handler that is running, which uses the guard.
void StartSequence::stop() {
  callbacks_.close();
  lister_.reset();
}

// --- the steps, in their order -------------------------------------------------------------------

void StartSequence::check() {
  enter(Step::kChecking);
  checks_left_ = kStartChecksMax;
  const auto on_nodes = [this](const kube::Response& page) {
    if (!page.ok()) return retry("list nodes: " + kube::answer_text(page), &StartSequence::check);
    const auto nodes = kube::read_list_page(page.body);
    const bool any = nodes && !nodes->items.empty();
    const auto node = any ? kube::read_node(nodes->items.front()) : error("no node");
    check_node_ = NodeName(node ? node->metadata.name : "mgpu-precondition-check");
    check_page("");
  };
  transport_.send(kube::list(kube::all_nodes(), 1, ""), callbacks_.wrap(on_nodes));
}

// A page of several pods of tenants could be too large to be received.
void StartSequence::check_page(const std::string& continue_token) {
  transport_.send(kube::list(kube::all_pods(), 1, continue_token),
                  callbacks_.wrap([this](const kube::Response& page) { check_pod(page); }));
}

void StartSequence::check_pod(const kube::Response& page) {
  if (!page.ok()) {
    return retry("list pods: " + kube::answer_text(page), &StartSequence::check);
  }
  const auto pods = kube::read_list_page(page.body);
  if (!pods) return retry("list pods: " + pods.error().message, &StartSequence::check);
  const auto go_on = [this, next = pods->continue_token] {
    if (next.empty() || --checks_left_ == 0) return take_lease();
    check_page(next);
  };
  const bool any = !pods->items.empty();
  const auto pod = any ? kube::read_pod(pods->items.front()) : error("no pod");
  if (!pod) return go_on();
  guards_.preconditions.run(pod->ref(), check_node_,
                            callbacks_.wrap([this, go_on](const kube::ApiResult<void>& refused) {
                              if (refused) return take_lease();
                              if (guards_.preconditions.ignored())
                                return retry(refused.error().message, &StartSequence::check);
                              go_on();
                            }));
}

void StartSequence::take_lease() {
  enter(Step::kTaking);
  guards_.lease.take(callbacks_.wrap([this](const kube::ApiResult<void>& taken) {
    bindings_end_ = client_.executor().now() + kLateBindingMax;
    if (taken) return list_pending();
    retry(taken.error().message, &StartSequence::take_lease);
  }));
}

void StartSequence::list_pending() {
  enter(Step::kListing);
  // Nothing for a pod that requests no cards, which this program never binds.
  using Named = std::optional<Pending>;
  kube::Consumer<Named> consumer{
      .read = [this](std::string_view json) -> Result<Named> {
        const Result<kube::Pod> pod = kube::read_pod(json);
        // A process that could not read the pod could not bind it.
        if (!pod) return pod.error();
        if (!names_cards(*pod, contract_) || cannot_be_bound(*pod)) return Named();
        // No flag permits less.
        if (!read_request(*pod, contract_, MiB(1))) return Named();
        const auto most = most_of_one_card(*pod, contract_);
        return Named({pod->ref(), pod->uid(), pod->metadata.resource_version,
                      most ? *most : Share{kWholeCard, MiB(kCardMemoryMiBMax)}, group_name(*pod)});
      },
      .apply = [](const Named&) {},
      .remove = [](const Named&) {},
      .relist =
          [this](std::vector<Named> pods, bool) {
            std::vector<Pending> named;
            for (Named& pod : pods) {
              if (pod) named.push_back(*std::move(pod));
            }
            // Not at once: this runs inside the reflector, which is not needed any more.
            client_.executor().post(callbacks_.wrap(
                [this, named = std::move(named)]() mutable { on_pending(std::move(named)); }));
          }};
  lister_.emplace(
      "pending pods", kube::unbound_pods(), transport_, std::move(consumer),
      kube::ReflectorEvents{
          .on_problem = [this](const std::string& sentence) { note_problem(sentence); },
          .on_unreadable = [this](const std::string& sentence) { note_problem(sentence); },
      });
  lister_->start();
}

// A reflector that relists before it is destroyed calls this twice.
void StartSequence::on_pending(std::vector<Pending> pods) {
  if (!lister_) return;
  lister_.reset();
  {
    const MutexLock lock(mutex_);
    pending_ = pods.size();
  }
  to_touch_.assign(std::make_move_iterator(pods.begin()), std::make_move_iterator(pods.end()));
  enter(Step::kTouching);
  touch_more();
}

void StartSequence::touch_more() {
  while (!waiting_ && in_flight_ < in_flight_max_ && !to_touch_.empty()) {
    Pending next = std::move(to_touch_.front());
    to_touch_.pop_front();
    const auto failed = failed_in_.find(next.pod.name_space);
    if (!done() && failed != failed_in_.end() && failed->second.size() >= kStartFailedPods) {
      set_aside(next, "other pods of its namespace could not be changed");
      continue;
    }
    ++in_flight_;
    guards_.touch.settle(next.pod, next.resource_version, kStartTouchTimeout,
                         callbacks_.wrap([this, next](const kube::ApiResult<kube::Pod>& result) {
                           on_touched(next, result);
                         }));
  }
  if (in_flight_ > 0 || !to_touch_.empty() || waiting_) return;
  if (!again_.empty()) {
    in_flight_max_ = std::max<std::size_t>(1, in_flight_max_ / 2);
    to_touch_.swap(again_);
    return wait_then(&StartSequence::touch_more);
  }
  if (!done()) finish();
  if (!unsettled_.empty()) wait_then(&StartSequence::try_unsettled);
}

void StartSequence::finish() {
  if (!unsettled_.empty()) {
    note_problem(fmt::format(
        "{} of the pending pods cannot be changed, and count on every card for "
        "{} s; the first one: {}",
        unsettled_.size(), kLateBindingMax.count() / 1'000, unsettled_.begin()->second.problem));
  }
  // In this order: verbs run on other threads, and must not find it done while the pods count as
  // listed because a follower listed them.
  events_.on_done();
  enter(Step::kDone);
}

void StartSequence::on_touched(const Pending& pending, const kube::ApiResult<kube::Pod>& touched) {
  --in_flight_;
  if (touched || touched.error().kind == Kind::kNotFound) {
    // A late binding: the watch may be later than this answer.
    const bool bound = touched && !touched->node_name.empty() && !touched->finished();
    auto claim = bound ? claim_of(*touched, contract_) : std::nullopt;
    if (claim) ledger_.assume_bound(*std::move(claim), client_.executor().now());
    failed_in_.erase(pending.pod.name_space);
    settle(pending);
    if (touched && !bound && !pending.group.empty()) {
      ledger_.reservations().keep_everywhere(
          pending.uid, pending.most, client_.executor().now() + kGroupRetryLife, pending.group);
    }
  } else if (is_of_this_pod(touched.error(), pending.touches)) {
    set_aside(pending, touched.error().message);
  } else {
    return on_failed(pending, touched.error());
  }
  touch_more();
}

void StartSequence::settle(const Pending& pending) {
  failures_ = 0;
  backoff_.reset();
  in_flight_max_ = std::min(in_flight_max_ + 1, kStartTouchesInFlight);
  if (!done()) report_progress();
  if (unsettled_.erase(pending.uid) == 0) return;
  ledger_.reservations().end_everywhere(pending.uid);
  unsettled_count_ = unsettled_.size();
}

void StartSequence::set_aside(const Pending& pending, const std::string& problem) {
  failures_ = 0;
  const auto [unsettled, is_new] = unsettled_.try_emplace(pending.uid, Unsettled{pending, problem});
  if (!is_new) return;
  ledger_.reservations().keep_everywhere(pending.uid, pending.most, bindings_end_);
  unsettled_count_ = unsettled_.size();
}

// The next ones: while all are refused, they cost the API server a bounded number of requests.
void StartSequence::try_unsettled() {
  auto next = unsettled_.upper_bound(tried_last_);
  while (to_touch_.size() < std::min(kStartTouchesInFlight, unsettled_.size())) {
    if (next == unsettled_.end()) next = unsettled_.begin();
    to_touch_.push_back(next->second.pending);
    tried_last_ = next->first;
    ++next;
  }
  touch_more();
}

// The pod is touched again after the others. All wait where several fail in a row, and where the
// others are done.
void StartSequence::on_failed(Pending pending, const kube::ApiError& failure) {
  note_problem(failure.message);
  if (failure.kind != Kind::kUnavailable) {
    failures_ = 0;
    failed_in_[pending.pod.name_space].insert(pending.uid);
    ++pending.touches;
    again_.push_back(std::move(pending));
    return touch_more();
  }
  to_touch_.push_back(std::move(pending));
  in_flight_max_ = std::max<std::size_t>(1, in_flight_max_ / 2);
  const bool all_wait = ++failures_ >= kStartTouchFailures || to_touch_.size() + in_flight_ == 1;
  if (waiting_ || !all_wait) return touch_more();
  wait_then(&StartSequence::touch_more);
}

// --- state ---------------------------------------------------------------------------------------

void StartSequence::enter(Step step) {
  const MutexLock lock(mutex_);
  if (step_ == step) return;
  step_ = step;
  backoff_.reset();
}

void StartSequence::report_progress() {
  std::size_t touched = 0;
  std::size_t all = 0;
  {
    const MutexLock lock(mutex_);
    touched = ++touched_;
    all = pending_;
  }
  const std::size_t tenth = std::max<std::size_t>(1, all / 10);
  if (touched % tenth == 0 || touched == all) events_.on_progress(touched, all);
}

std::vector<UnsettledPod> StartSequence::unsettled_pods(std::size_t most) const {
  std::vector<UnsettledPod> pods;
  for (const auto& [uid, unsettled] : unsettled_) {
    if (pods.size() == most) break;
    pods.push_back({unsettled.pending.pod, uid, unsettled.problem});
  }
  return pods;
}

void StartSequence::note_problem(const std::string& sentence) {
  if (done()) return;
  events_.on_problem(sentence);
}

void StartSequence::retry(const std::string& sentence, void (StartSequence::*step)()) {
  note_problem(sentence);
  wait_then(step);
}

void StartSequence::wait_then(void (StartSequence::*step)()) {
  waiting_ = true;
  client_.executor().after(backoff_.next(), callbacks_.wrap([this, step] {
    waiting_ = false;
    (this->*step)();
  }));
}

bool StartSequence::done() const {
  const MutexLock lock(mutex_);
  return step_ == Step::kDone;
}

bool StartSequence::taking() const {
  const MutexLock lock(mutex_);
  return step_ == Step::kTaking;
}

std::string StartSequence::waiting_for() const {
  const MutexLock lock(mutex_);
  switch (step_) {
    case Step::kChecking:
      return "check of preconditions";
    case Step::kTaking:
      return "lease " + guards_.lease.name();
    case Step::kListing:
      return "pending pods";
    case Step::kTouching:
      return fmt::format("pending pods: {} of {} touched", touched_, pending_);
    case Step::kDone:
      break;
  }
  return {};
}

}  // namespace mgpu::extender
