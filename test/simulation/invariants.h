// What is true in the simulated cluster, by the API server's own history and by what runs on the
// nodes, and whether a promise is broken. It is not part of the programs under test, and nothing
// delays what it learns.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/apiserver/api_server.h"
#include "common/contract/contract.h"
#include "common/contract/gpu_request.h"
#include "common/kube/objects/objects.h"

namespace mgpu::simulation {

class Invariants {
 public:
  // Both outlive it. `has_policies`: nobody but the binding writes the cards of a pod.
  Invariants(kube::MemoryApiServer& server, const Contract& contract, bool has_policies);

  // A container starts with these cards.
  void start_container(const PodUid& uid, const std::string& container, const std::string& node,
                       const std::vector<CardIndex>& cards);
  // kube-scheduler gets the response that the pod is bound to the node.
  void report_bound(const PodUid& uid, const std::string& node);
  // When the pod was bound.
  std::optional<Instant> bound_at(const PodUid& uid) const;
  // All containers of the pod on this node have ended.
  void end_containers(const PodUid& uid);

  // Of all events of the watch of pods.
  std::uint64_t digest() const { return digest_; }
  // The first broken promise, as one sentence.
  const std::optional<std::string>& violation() const { return violation_; }
  void violate(std::string sentence) {
    if (!violation_) violation_ = std::move(sentence);
  }

 private:
  using Card = std::pair<std::string, CardIndex>;

  // A pod as it was bound.
  struct BoundPod {
    PodRef ref;
    std::string node;
    GpuRequest request;
    std::optional<Placement> placement;
    // The values that the annotation of each container has had. Without the policies it can change.
    std::map<std::string, std::set<std::string>> cards_named;
    // The cards with which each container started first. A restarted container has the same.
    std::map<std::string, std::vector<CardIndex>> cards_started;
    Instant since{};
    bool by_binding = false;  // not by its creator
    bool ended = false;
  };
  struct Running {
    PodUid uid;
    std::string container;
    Share share;
  };

  void on_line(std::string_view line);
  void note_in_digest(std::string_view text);
  void on_pod(const kube::Pod& pod, bool deleted);
  void note_bound(const kube::Pod& pod, bool by_binding);
  void note_cards(const kube::Pod& pod, BoundPod& bound);
  void check_capacity(const std::string& node);

  Executor& executor_;
  const Contract& contract_;
  const bool has_policies_;
  std::set<PodUid> seen_unbound_;
  std::map<PodUid, BoundPod> bound_;
  std::map<Card, std::vector<Running>> running_;
  std::optional<std::string> violation_;
  std::uint64_t digest_ = 0xcbf29ce484222325;
  std::unique_ptr<kube::Stream> stream_;
};

// "0,1"
std::string cards_text(const std::vector<CardIndex>& cards);

}  // namespace mgpu::simulation
