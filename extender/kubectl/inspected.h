// The nodes and cards that the extender shows under /inspect/cluster, and their amounts as text.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/output.h"

namespace mgpu::kubectl {

struct Amounts {
  std::int64_t capacity = 0;
  std::int64_t used = 0;
  std::int64_t free = 0;
};

struct InspectedCard {
  std::int64_t index = 0;
  std::string uuid;
  std::string model;
  bool healthy = true;
  std::string health;      // what is wrong with it, such as "XID 79"
  bool uncertain = false;  // a pod whose cards are not known may be on it
  bool cordoned = false;
  bool mig = false;             // a MIG device, which only pods get that name it
  bool overfull = false;        // more is in use than its capacity, by pods whose cards are known
  std::string overfull_detail;  // which pods, and what to do
  std::int64_t pods = 0;
  Amounts core;
  Amounts memory;  // MiB
  std::optional<std::int64_t> numa{};
  std::string links{};  // "NV2 0,3; PIX 1"; empty: not known
};

inline constexpr const char* kHealthyState = "Healthy";

struct InspectedNode {
  std::string name;
  std::string problem{};    // why its cards cannot be read
  std::string isolation{};  // what limits memory on it; empty: its device plugin does not say
  std::string compute{};    // what limits compute on it; empty: nothing
  std::vector<std::string> taints{};  // that keep pods away, "key=value:Effect"
  bool cordoned = false;              // the node, by its spec
  std::int64_t pods = 0;
  std::vector<InspectedCard> cards{};
};

// Errors: a member is missing or has a wrong type.
Result<std::vector<InspectedNode>> read_inspected_nodes(const Json& cluster);

// The pages of all nodes, sorted by name. `first` may be null, or gets the first page, which has
// also the totals and the drift.
Result<std::vector<InspectedNode>> all_nodes(Extender& extender, Json* first = nullptr);

// Which nodes a command is about: those that are named, or those with the labels, or all with
// cards.
struct NodeChoice {
  std::vector<std::string> names{};
  std::string selector{};
};
// -l and NODE...
void add_node_flags(Options& options, NodeChoice& choice);
// Errors: a node that is named is not known to the extender; the nodes cannot be listed.
Result<std::vector<InspectedNode>> chosen_nodes(std::vector<InspectedNode> nodes,
                                                const NodeChoice& choice, Api& api);

// The sums of the cards of nodes.
struct NodeSums {
  std::int64_t cards = 0;
  std::int64_t usable = 0;  // cards that pods may be placed on
  std::int64_t free = 0;    // of these, those that no pod holds, without MIG devices
  std::int64_t free_mig = 0;
  std::int64_t pods = 0;
  // "free" is without that of MIG devices.
  Amounts core;
  Amounts memory;
  std::map<std::string, std::int64_t> models;
};
NodeSums sums_of(const std::vector<InspectedNode>& nodes);

// "30/100", with a bar on terminals.
Cell used_cell(const Amounts& amounts);
// "Healthy", "Unhealthy", "Cordoned" or "Blocked".
std::string state_of(const InspectedCard& card);
// Green for healthy, red for unhealthy, and yellow for what somebody may end.
Color color_of_state(const std::string& state);
// "XID 79 for 4m" of "XID 79 since 2026-01-02T03:04:05Z".
std::string health_text(const std::string& health, Time now);
Json amounts_json(const Amounts& amounts);
// 65130 as "65,130".
std::string grouped(std::int64_t number);

// The text of the exception, without the number that only the JSON library's pages explain.
std::string problem_of(const nlohmann::json::exception& failure);

// `read`, with an error instead of an exception of the JSON library.
template <class T, class Read>
Result<T> read_answer(const std::string& what, const Read& read) try {
  return read();
} catch (const nlohmann::json::exception& failure) {
  return error(what + ": the answer cannot be read: " + problem_of(failure));
}

}  // namespace mgpu::kubectl
