#include "extender/leadership.h"

#include <future>
#include <memory>
#include <utility>

#include "common/base/log.h"
#include "extender/process_identity.h"

namespace mgpu::extender {

Leadership::Leadership(kube::Client& client, const kube::ObjectRef& lease,
                       kube::Transport* for_election,
                       const std::optional<ElectionOptions>& election, const Heartbeat& work,
                       std::function<void(const std::string& sentence)> on_lost)
    : client_(client),
      on_lost_(std::move(on_lost)),
      lease_(
          client, lease, process_identity(),
          [this](const std::string& sentence) { lose(sentence); },
          for_election == nullptr ? std::function<void(HolderLease::Done)>()
                                  : [this](HolderLease::Done done) { acquire(std::move(done)); }) {
  if (for_election == nullptr) return;
  election_.emplace(*for_election, lease, lease_.identity(), *election, work, election_events());
}

LeaderElection::Events Leadership::election_events() {
  const auto taken = [this] { std::exchange(acquired_, {})({}); };
  return {.on_taken = [this, taken] { client_.executor().post(callbacks_.wrap(taken)); },
          .on_lost = [this](const std::string& why) { lease_.lose_because(why); },
          .on_problem =
              [](const std::string& problem) {
                log_warn("the lease could not be read or written, trying again",
                         {{"problem", problem}});
              },
          .on_other_holder =
              [this](const std::string& holder) {
                log_info("another process holds the lease",
                         {{"lease", lease_.name()}, {"holder", holder}});
              }};
}

void Leadership::acquire(HolderLease::Done done) {
  log_info("following, until the lease may be taken", {{"lease", lease_.name()}});
  acquired_ = std::move(done);
  election_->start();
}

void Leadership::lose(const std::string& sentence) {
  if (given_up_) return;
  log_error("lease lost", {{"problem", sentence}});
  if (on_lost_) on_lost_(sentence);
}

void Leadership::note_asked() {
  if (election_) election_->note_asked();
}

void Leadership::publish(const EndpointOptions& options, std::uint16_t port) {
  const auto on_problem = [](const std::string& problem) {
    log_warn("the endpoint of the leader could not be written, trying again",
             {{"problem", problem}});
  };
  endpoints_.emplace(client_, lease_, options, on_problem);
  endpoints_->start(port);
}

void Leadership::release() {
  if (!election_ || lease_.lost()) return;
  given_up_ = true;
  const auto released = std::make_shared<std::promise<void>>();
  election_->release([released] { released->set_value(); });
  if (released->get_future().wait_for(kReleaseTimeout) != std::future_status::ready) {
    log_warn("the lease was not given up in time", {{"lease", lease_.name()}});
  }
}

}  // namespace mgpu::extender
