// The profile of this node: applied to its cards and published, and the isolation that it wants is
// begun where no container holds a card, so that the containers of a card are limited in one way.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/kube/event_recorder.h"
#include "plugin/agent/isolation.h"
#include "plugin/agent/node_profiles.h"
#include "plugin/containers/pre_start_handler.h"
#include "plugin/node/node_publisher.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

// The server of MPS and the contexts of its clients are outside of what programs can allocate.
MiB default_reserve(ComputeMode compute);
// The least share of a card that is useful where shares are enforced in this way. With MPS, the
// shares of each card are at most as many as its server has clients. Where the context of a program
// counts, there is memory left for the program.
Share least_share(IsolationMode chosen, ComputeMode compute, const std::vector<CardFacts>& cards);

class ProfileControl {
 public:
  struct Options {
    std::vector<Profile> profiles;  // empty: the other options are those of every node
    std::string label;              // of the Node object, which names a profile
    std::string state_folder;
    IsolationMode isolation = IsolationMode::kNone;  // without a profile that has one
    // What is to limit compute, with the isolation of each profile.
    ComputeMode compute = ComputeMode::kNone;
    // The memory of each card that no pod gets, if there are profiles. Not set: that of
    // default_reserve().
    std::optional<MiB> reserve{};
    // The least memory of a card that a pod may request. Not set: that of least_share().
    std::optional<MiB> minimum_memory{};
  };
  // All outlive it. `on_changed` is called after another profile was chosen.
  struct Dependencies {
    Isolation& isolation;
    const Records& records;
    const NodePublisher& publisher;
    kube::EventRecorder& events;
    std::function<void()> on_changed;
  };

  ProfileControl(Options options, Dependencies dependencies);

  // Chooses the first profile. False: the labels of the node must be known first, since a card that
  // its profile reserves must not be offered before. Not after the inventory has started.
  bool choose_first();
  // Sets what limits the containers of an earlier process, or else what is wanted.
  void set_first_isolation();
  // Applies the profile that the labels choose now. On the thread of the inventory.
  void apply(std::vector<FoundCard>& cards);
  // Begins the wanted isolation if no container holds a card. True: it has begun. The thread of
  // set_first_isolation().
  bool switch_isolation(PreStartHandler& handler);
  // Returns what the Node object says of the profile. `cards`: as they are published with it. Any
  // thread.
  NodeProfile published(const std::vector<CardFacts>& cards) const;

 private:
  void report() const;
  IsolationMode wanted_isolation() const;
  ComputeMode wanted_compute() const { return compute_with(wanted_isolation(), options_.compute); }
  bool is_wanted() const;
  void keep_isolation() const;
  std::string pending_isolation() const;

  const Options options_;
  const Dependencies dependencies_;
  const std::string isolation_file_;
  const std::string compute_file_;
  NodeProfiles profiles_;
};

}  // namespace mgpu::plugin
