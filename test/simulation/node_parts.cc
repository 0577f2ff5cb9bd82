#include "test/simulation/node_parts.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "plugin/cards/inventory.h"
#include "plugin/hook/limit_protocol.h"
#include "test/plugin/support/gpu_objects.h"

namespace mgpu::simulation {
namespace {

std::map<std::string, ListDevices>& pod_resources() {
  static std::map<std::string, ListDevices> all;
  return all;
}

class Source final : public plugin::CardSource {
 public:
  explicit Source(const SimulatedCards& cards) : cards_(cards) {}
  Result<plugin::FoundCards> read() override { return cards_.found(); }
  std::vector<plugin::CardUse> use() override { return {}; }
  void wait_for_change(std::chrono::milliseconds) override {}
  void interrupt() override {}
  std::string description() const override { return "simulated cards"; }

 private:
  const SimulatedCards& cards_;
};

std::vector<CardFacts> facts_of(const plugin::FoundCards& found) {
  std::vector<CardFacts> facts;
  for (const plugin::FoundCard& card : found.cards) {
    const CardIndex index(static_cast<int>(facts.size()));
    facts.push_back({index, card.uuid, card.model, card.memory, card.health});
  }
  return facts;
}

SpecEntry entry_of(const nlohmann::json& edits) {
  constexpr std::string_view kCards = "MGPU_CARDS=";
  SpecEntry entry;
  for (const std::string line : edits.at("env")) {
    if (line.starts_with(kCards)) {
      entry.cards = parse_card_indices(line.substr(kCards.size())).value();
    }
    if (line.starts_with("CUDA_MPS_PIPE_DIRECTORY=")) entry.is_limited_by_mps = true;
  }
  for (const auto& hook : edits.value("hooks", nlohmann::json::array())) {
    if (hook["args"][1].get<std::string>() == plugin::kMpsHookArgument) entry.asks_mps = true;
  }
  return entry;
}

std::string spec_path(const std::string& cdi_folder, const Contract& contract) {
  return cdi_folder + "/" + contract.domain + "-mgpu.json";
}

}  // namespace

void serve_pod_resources(const std::string& node, ListDevices list) {
  pod_resources()[node] = std::move(list);
}

// --- cards ---------------------------------------------------------------------------------------

SimulatedCards::SimulatedCards(std::string node, int cards) : found_(test::found_cards(cards)) {
  for (plugin::FoundCard& card : found_.cards) {
    card.uuid = CardUuid(card.uuid.str() + "-" + node);
  }
}

void SimulatedCards::set_healthy(int card, bool healthy) {
  found_.cards[static_cast<std::size_t>(card)].health = healthy ? std::string(kHealthy) : "XID 79";
}

std::vector<CardFacts> SimulatedCards::facts() const {
  return facts_of(found_);
}

std::unique_ptr<plugin::CardSource> SimulatedCards::source() const {
  return std::make_unique<Source>(*this);
}

// --- injection -----------------------------------------------------------------------------------

std::optional<SpecEntry> find_in_spec(const std::string& cdi_folder, const Contract& contract,
                                      const std::string& allocation) {
  std::ifstream file(spec_path(cdi_folder, contract));
  const auto spec = nlohmann::json::parse(file, nullptr, false);
  if (!spec.is_object()) return std::nullopt;
  for (const auto& device : spec["devices"]) {
    if (device["name"] == allocation) return entry_of(device["containerEdits"]);
  }
  return std::nullopt;
}

void put_empty_spec(const std::string& cdi_folder, const Contract& contract) {
  std::filesystem::create_directories(cdi_folder);
  std::ofstream(spec_path(cdi_folder, contract))
      << nlohmann::json{{"cdiVersion", "0.5.0"},
                        {"kind", plugin::cdi_kind(contract)},
                        {"devices", nlohmann::json::array()}};
}

}  // namespace mgpu::simulation

// --- in the place of plugin/kubelet/pod_resources.cc and plugin/cards/inventory.cc ---------------

namespace mgpu::plugin {

struct PodResources::State {
  std::string node;
};

PodResources::PodResources(std::string socket)
    : state_(std::make_shared<State>(State{std::move(socket)})) {}

PodResources::~PodResources() = default;

Result<std::vector<ContainerDevices>> PodResources::list(const std::string&,
                                                         std::chrono::milliseconds) {
  const auto at = simulation::pod_resources().find(state_->node);
  if (at == simulation::pod_resources().end() || !at->second) return error("kubelet is down");
  return at->second();
}

Inventory::Inventory(std::unique_ptr<CardSource> source, Dependencies dependencies)
    : source_(std::move(source)), dependencies_(std::move(dependencies)) {}

Inventory::~Inventory() = default;

void Inventory::start() {}

void Inventory::stop() {}

InventoryState Inventory::state() const {
  InventoryState state;
  state.read = true;
  state.found = source_->read().value();
  state.cards = simulation::facts_of(state.found);
  return state;
}

std::optional<std::vector<DeviceNode>> Inventory::nodes_of(const CardUuid&) const {
  return std::vector<DeviceNode>{{.path = "/dev/nvidia0", .host_path = "/dev/nvidia0"}};
}

std::vector<CardUse> Inventory::use() const {
  return {};
}

std::string Inventory::description() const {
  return source_->description();
}

}  // namespace mgpu::plugin
