#include "test/simulation/extenders.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "common/base/limits.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/election/limits.h"

namespace mgpu::simulation {
namespace {

constexpr double kRestartMaxMs = 3'000;
// A process that was replaced runs on for this long after it was stopped: longer than its binds.
constexpr Duration kReplacedRuns{15'000};
// kube-proxy learns of a new endpoint, and kube-scheduler closes a connection.
constexpr double kProxyMaxMs = 1'000;
constexpr double kConnectionMaxMs = 20'000;
// A leader that could not renew the Lease may need so much longer than its duration to end.
constexpr Duration kLeaseMargin{1'000};
// The Lease is taken, pending pods are touched, and pods are listed.
constexpr Duration kTakeover{2'000};
// Calls that are in progress end first.
constexpr Duration kShutdownFailover{8'000};

std::optional<extender::ElectionOptions> election_of(const Setting& setting) {
  if (setting.replicas == 1) return std::nullopt;
  extender::ElectionOptions options;
  if (setting.has_short_lease) {
    options.duration = Duration(5'000);
    options.renew_deadline = Duration(2'500);
    options.retry = Duration(500);
  }
  options.when_asked = setting.is_beside_scheduler;
  return options;
}

// It has no selector, so that the leader is its only endpoint.
kube::Request create_service() {
  kube::Request request;
  request.method = kube::Method::kPost;
  request.target = "/api/v1/namespaces/" + kExtenderService.name_space + "/services";
  request.content_type = "application/json";
  request.body = fmt::format(R"({{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{}"}},)"
                             R"("spec":{{"ports":[{{"port":443}}]}}}})",
                             kExtenderService.name);
  return request;
}

}  // namespace

Extenders::Extenders(kube::MemoryApiServer& server, const Contract& contract,
                     const Setting& setting, std::function<void(std::string)> violate,
                     std::function<void(const std::string&)> on_event)
    : world_(server.executor()),
      server_(server),
      contract_(contract),
      setting_(setting),
      leadership_(
          setting.has_refused_objects, [this](int number) { return keeps_lease(number); },
          std::move(violate)),
      on_event_(std::move(on_event)),
      replicas_(static_cast<std::size_t>(setting.replicas)) {
  if (setting_.replicas > 1) server_.call(create_service());
  for (std::size_t replica = 0; replica < replicas_.size(); ++replica) start(replica);
}

// --- processes -----------------------------------------------------------------------------------

ExtenderProcess* Extenders::find(int number) {
  const auto at = processes_.find(number);
  return at == processes_.end() ? nullptr : at->second.process.get();
}

std::size_t Extenders::replica(Which which) {
  std::size_t leader = 0;
  for (std::size_t replica = 0; replica < replicas_.size(); ++replica) {
    if (newest(replica) == leadership_.holder()) leader = replica;
  }
  return which == Which::kLeader ? leader : replicas_.size() - 1 - leader;
}

void Extenders::start(std::size_t replica) {
  const int number = ++started_;
  Replica& of = replicas_[replica];
  ExtenderProcess::Setup setup;
  setup.identity = identity_of(number);
  setup.preempts_by_card = setting_.preempts_by_card;
  setup.election = election_of(setting_);
  setup.has_service = setting_.replicas > 1 && !setting_.is_beside_scheduler;
  setup.port = static_cast<std::uint16_t>(number);
  setup.clock_offset = &of.clock_offset;
  setup.on_lease_lost = [this, number] { on_lease_lost(number); };
  setup.on_served = [this, number](const kube::Request& request, const kube::Response& response) {
    on_served(number, request, response);
  };
  auto process = std::make_unique<ExtenderProcess>(server_, faults_, contract_, std::move(setup));
  if (of.cut_until > world_.now()) process->cut(of.cut, of.cut_until - world_.now());
  processes_[number] = {replica, std::move(process)};
  of.newest = number;
}

void Extenders::start_later(std::size_t replica) {
  const Duration delay(1 + static_cast<int>(world_.random() * kRestartMaxMs));
  world_.after(delay, [this, replica, before = newest(replica)] {
    if (newest(replica) == before) start(replica);
  });
}

void Extenders::end(int number) {
  const auto at = processes_.find(number);
  if (at == processes_.end()) return;
  const std::size_t replica = at->second.replica;
  processes_.erase(at);
  if (number == newest(replica)) start_later(replica);
}

// The process calls this, and ends.
void Extenders::on_lease_lost(int number) {
  world_.post([this, number] { end(number); });
}

// --- what is true --------------------------------------------------------------------------------

// A replica that kube-scheduler asks takes the Lease at once.
bool Extenders::keeps_lease(int number) {
  const ExtenderProcess* process = find(number);
  const auto election = election_of(setting_);
  return process != nullptr && election && !election->when_asked && process->leads() &&
         process->stopped_until() + election->duration + kLeaseMargin < world_.now();
}

void Extenders::note_deciding() {
  for (const auto& [number, of] : processes_) {
    if (of.process->ready()) leadership_.note_deciding(number);
  }
}

void Extenders::on_served(int number, const kube::Request& request,
                          const kube::Response& response) {
  note_deciding();
  leadership_.on_served(number, request, response);
  const bool is_event =
      request.method == kube::Method::kPost && request.target.ends_with("/events");
  if (is_event && response.ok()) on_event_(request.body);
}

std::optional<std::string> Extenders::problem_after_quiet() {
  const ExtenderProcess* leader = find(Which::kLeader);
  if (leader == nullptr || !leader->ready()) return "the extender is not ready after quiet";
  if (replicas_.size() == 1) return std::nullopt;
  if (newest(replica(Which::kLeader)) != leadership_.holder()) {
    return "the process that has the Lease has ended";
  }
  const ExtenderProcess* follower = find(Which::kFollower);
  if (follower == nullptr || !follower->follows()) return "the other replica does not follow";
  if (processes_.size() != replicas_.size()) return "a process that was replaced has not ended";
  return std::nullopt;
}

bool Extenders::decides_without(int number) {
  return std::ranges::any_of(processes_, [number](const auto& one) {
    return one.first != number && one.second.process->ready();
  });
}

Duration Extenders::failover_after(End end) const {
  const auto election = election_of(setting_);
  // kube-scheduler may ask nobody in this time.
  const Duration unasked =
      election->when_asked ? Duration(extender::kTakenUnaskedAfter) : Duration(0);
  if (end == End::kShutDown) return kShutdownFailover + unasked;
  const Duration renewed = end == End::kHung ? Duration(kHeartbeatMissed) : Duration(0);
  return renewed + election->duration + election->retry + kTakeover + unasked;
}

// --- kube-scheduler's calls ----------------------------------------------------------------------

void Extenders::call(const std::string& verb, std::string body, const Answered& done) {
  const int number = route();
  const auto at = processes_.find(number);
  if (at == processes_.end()) return done(0, "", 0);
  const std::size_t replica = at->second.replica;
  if (!reaches_scheduler(replica)) return;
  at->second.process->call(
      verb, std::move(body),
      [this, number, replica, verb, done](int status, const std::string& answer) {
        note_deciding();
        leadership_.on_answered(number, verb, status);
        if (reaches_scheduler(replica)) done(status, answer, number);
      });
}

// Until the process that replaces another one has started, the old one gets the requests.
int Extenders::route() {
  if (misrouted_until_ > world_.now() && !processes_.empty()) {
    const auto any =
        static_cast<std::ptrdiff_t>(world_.random() * static_cast<double>(processes_.size()));
    return std::next(processes_.begin(), any)->first;
  }
  if (replicas_.size() == 1) return newest(0);
  if (setting_.is_beside_scheduler) {
    return newest(static_cast<std::size_t>(scheduler_at_) % replicas_.size());
  }
  follow_endpoint();
  if (connected_until_ > world_.now() && find(connected_) != nullptr) return connected_;
  connected_ = proxied_;
  connected_until_ = world_.now() + Duration(static_cast<int>(world_.random() * kConnectionMaxMs));
  return connected_;
}

// The port of an endpoint is the number of its process.
int Extenders::endpoint() {
  const auto response = server_.call(kube::get_endpoint_slice(kExtenderService));
  if (!response.ok()) return 0;
  const auto slice = kube::read_endpoint_slice(response.body);
  return slice ? static_cast<int>(slice->port) : 0;
}

void Extenders::follow_endpoint() {
  if (proxy_is_due_ || endpoint() == proxied_) return;
  proxy_is_due_ = true;
  world_.after(Duration(static_cast<int>(world_.random() * kProxyMaxMs)), [this] {
    proxy_is_due_ = false;
    proxied_ = endpoint();
  });
}

// --- what happens to them ------------------------------------------------------------------------

void Extenders::kill(Which which) {
  const std::size_t of = replica(which);
  processes_.erase(newest(of));
  start_later(of);
}

void Extenders::kill_all() {
  for (std::size_t replica = 0; replica < replicas_.size(); ++replica) {
    processes_.erase(newest(replica));
    start_later(replica);
  }
}

void Extenders::shut_down(Which which) {
  const int number = newest(replica(which));
  ExtenderProcess* process = find(number);
  if (process == nullptr) return;
  process->shut_down([this, number] { world_.post([this, number] { end(number); }); });
}

void Extenders::replace(ExtenderProcess::Stop stop, Duration time) {
  const std::size_t of = replica(Which::kLeader);
  const int number = newest(of);
  ExtenderProcess* process = find(number);
  if (process == nullptr) return;
  process->stop(stop, time);
  world_.after(time + kReplacedRuns, [this, number] { processes_.erase(number); });
  start_later(of);
}

void Extenders::hold_next_bind(Duration time, Duration kill_after) {
  const int number = newest(replica(Which::kLeader));
  ExtenderProcess* process = find(number);
  if (process == nullptr) return;
  process->link().before_next_bind([this, number, time, kill_after] {
    world_.after(kill_after, [this, number] { end(number); });
    return time;
  });
}

void Extenders::cut_from_api(Which which, Link::Cut cut, Duration time) {
  Replica& of = replicas_[replica(which)];
  of.cut = cut;
  of.cut_until = world_.now() + time;
  if (ExtenderProcess* process = find(of.newest)) process->cut(cut, time);
}

void Extenders::cut_from_scheduler(Which which, Duration time) {
  replicas_[replica(which)].scheduler_cut_until = world_.now() + time;
}

void Extenders::move_clock(Which which, Duration by) {
  replicas_[replica(which)].clock_offset += by;
}

}  // namespace mgpu::simulation
