// The views of inspect.h, and what they share. Any thread, but not one that must not wait. None
// holds the ledger's lock for more than a few nodes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/contract/gpu_request.h"
#include "common/http/message.h"
#include "common/kube/objects/objects.h"
#include "extender/ledger/ledger_reader.h"
#include "extender/verbs/pod_request.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

// Which nodes of many a request is about.
struct Page {
  std::string after;  // the names greater than this one
  std::size_t limit = 0;
};

// The number in the query's `name`, or `otherwise` where there is none. Errors: it is not a number
// within 1 .. `most`.
Result<std::size_t> read_count(const std::string& query, const std::string& name,
                               std::size_t otherwise, std::size_t most);
// Reads the query's `limit` and `after`. Errors: `limit` is not a number within 1 .. `limit_max`.
Result<Page> read_page(const std::string& query, std::size_t limit_default, std::size_t limit_max);

struct PageOfNodes {
  std::vector<NodeName> names;  // ascending
  std::string next;             // the `after` of the next page; empty on the last page
};
PageOfNodes cut_page(std::vector<NodeName> names, const Page& page);

// Members are written in the order in which they are set.
using Json = nlohmann::ordered_json;

// Text that is not UTF-8 is replaced by U+FFFD.
http::Response json_response(const Json& json);
Json indices(std::span<const CardIndex> cards);

// Says what is wrong with `cards`, which are overfull, and names pods on them and what to do.
std::string overfull_sentence(const NodeView& view, std::span<const CardIndex> cards);

// When an explanation ends before it has examined all nodes.
struct ExplainBounds {
  std::uint32_t steps = 0;      // for the nodes of the page, and as many for the reasons of all
  std::size_t rows = 0;         // cards times containers
  std::function<bool()> go_on;  // called before each node; false ends the explanation
};

// A part of "reasons": nodes that keep the pod out.
Json kept_out_json(Gate gate, std::size_t nodes);
// Sets "notConsidered" if the pod has rules that are not looked at.
void set_not_considered(Json& out, const kube::Pod& pod);

http::Response cluster_view(LedgerReader& ledger, const Page& page, Instant now);
http::Response node_view(const LedgerReader& ledger, const NodeName& name);
http::Response pod_view(const LedgerReader& ledger, const PodRef& pod);
http::Response policy_view(const VerbContext& context, Instant now);
// The parameters of POST <prefix>/simulate.
struct SimulateQuery {
  std::size_t replicas = 1;
  std::optional<PolicyChoice> policy{};  // instead of the pod's own
};
// Errors: `replicas` is not a number within 1 .. kSimulateReplicasMax; the policy is not known.
Result<SimulateQuery> read_simulate_query(const std::string& query);

// {"containers": [{"name", "kind", "cards", "core", "memoryMiB"?}*], "links"?}
Json request_json(const GpuRequest& request);
// [{"container", "cards": [index*]}*]
Json placement_json(const GpuRequest& request, const Placement& placement);

http::Response simulate_view(const VerbContext& context, const kube::Pod& pod,
                             const SimulateQuery& query, const ExplainBounds& bounds);
// "group" of an explanation: how many of so many pods like this one fit at the same time.
Json group_json(const VerbContext& context, PodRequest pod, const kube::NodeRules& rules,
                std::size_t pods, const ExplainBounds& bounds);
// What explain_view answers. `group_pods`: how many pods of the pod's group are pending, itself
// included; 0 where it has no group, or they are not known.
Json explanation_of(const VerbContext& context, const kube::Pod& pod, const Page& page,
                    const ExplainBounds& bounds, std::size_t group_pods = 0);
http::Response explain_view(const VerbContext& context, const kube::Pod& pod, const Page& page,
                            const ExplainBounds& bounds, std::size_t group_pods = 0);

}  // namespace mgpu::extender
