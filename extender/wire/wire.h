// The scheduler extender's messages (kube-scheduler extender/v1/types.go, unchanged since 1.21).
//
// Requests: member names match without regard to case at the top level (older extenders and
// schedulers differ), unknown members are ignored, null is absent. Replies use upper camel.
// Home of simdjson. Pure; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/kube/objects.h"

namespace mgpu::extender {

// A node of the full form: its name, and its own text for the reply.
struct FullNode {
  std::string_view name;
  std::string_view json;
};

// filter and prioritize. Names and nodes point into the message it owns. Movable.
class ExtenderArgs {
 public:
  ~ExtenderArgs();
  ExtenderArgs(ExtenderArgs&&) noexcept;
  ExtenderArgs& operator=(ExtenderArgs&&) noexcept;

  // Errors: not JSON, no Pod, a member of the wrong type.
  static Result<ExtenderArgs> parse(std::string body);
  // As parse would read them. The names must outlive the arguments.
  static ExtenderArgs of(kube::Pod pod, std::vector<std::string_view> names);

  const kube::Pod& pod() const;
  // The candidates, whichever form they came in.
  std::span<const std::string_view> node_names() const;
  // Only where the request carried whole Nodes (nodeCacheCapable: false); same order as the names.
  std::span<const FullNode> full_nodes() const;
  bool has_full_nodes() const;
  // Every name stands in the message as it is, so that it can stand in a reply as it is.
  bool names_as_written() const;

 private:
  struct Message;
  explicit ExtenderArgs(std::unique_ptr<Message> message);
  std::unique_ptr<Message> message_;
};

struct Refusal {
  std::string_view node;
  std::string_view sentence;
};

struct FilterReply {
  std::vector<std::string_view> fitting;        // a subset of the request, in its order
  std::vector<std::size_t> fitting_full_nodes;  // indices into full_nodes(), in that form
  std::vector<Refusal> failed;
  std::vector<Refusal> failed_and_unresolvable;
  std::string error;  // not empty: the request could not be understood
  // The sentence of a pod that is refused everywhere; refusals point into it.
  // Nothing fits, and news of the cluster could change that: see rejection_delay.h.
  bool may_change = false;
  std::shared_ptr<const std::string> pod_refusal;
};
// `args`: what is answered; null where it could not be read.
std::string write_filter_reply(const FilterReply& reply, const ExtenderArgs* args);

struct HostScore {
  std::string_view node;
  std::int64_t score = 0;  // 0 .. 10
};
// `args`: what is answered, where it is at hand.
std::string write_prioritize_reply(std::span<const HostScore> scores,
                                   const ExtenderArgs* args = nullptr);

struct BindingArgs {
  PodRef pod;
  PodUid uid;
  NodeName node;
};
// Errors: not JSON, PodName, PodNamespace, PodUID or Node absent or empty.
Result<BindingArgs> read_binding_args(std::string_view body);
// `error` empty: bound.
std::string write_binding_reply(std::string_view error);

// Victims by node; either form of request ends here.
struct NodeVictims {
  NodeName node;
  std::vector<PodUid> victims;
  std::int64_t pdb_violations = 0;
};
struct PreemptionArgs {
  kube::Pod pod;
  std::vector<NodeVictims> nodes;  // ascending by name
};
Result<PreemptionArgs> read_preemption_args(std::string_view body);
std::string write_preemption_reply(std::span<const NodeVictims> nodes);

}  // namespace mgpu::extender
