#include "bench/parts/cluster_objects.h"

#include <nlohmann/json.hpp>

#include "common/contract/contract.h"

namespace mgpu::bench {
namespace {

using Json = nlohmann::json;

// Nodes and their pods form groups of four nodes.
constexpr std::size_t kGroupNodes = 4;
constexpr std::size_t kGroupPods = kGroupNodes * kPodsPerNode;

std::string uid_of(const char* kind, std::size_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, 12 - digits.size(), '0');
  return std::string(kind) + "-0000-4000-8000-" + digits;
}

// The managed fields, which every object has and no program here reads.
Json managed_fields() {
  Json fields = Json::object();
  for (int i = 0; i < 24; ++i)
    fields["f:field-" + std::to_string(i)] = {{"f:nested", Json::object()},
                                              {"f:other", Json::object()}};
  return Json::array({{{"manager", "kubelet"},
                       {"operation", "Update"},
                       {"apiVersion", "v1"},
                       {"time", "2026-01-01T00:00:00Z"},
                       {"fieldsType", "FieldsV1"},
                       {"fieldsV1", fields}}});
}

Json images() {
  Json all = Json::array();
  for (int i = 0; i < 12; ++i)
    all.push_back({{"names", {"registry.example/team/image-" + std::to_string(i) + ":v1.2.3"}},
                   {"sizeBytes", 1'000'000'000 + i}});
  return all;
}

std::string cards(std::size_t node) {
  std::vector<CardFacts> facts;
  for (std::size_t i = 0; i < kCardsPerNode; ++i) {
    CardFacts card;
    card.index = CardIndex(static_cast<std::int32_t>(i));
    card.uuid = CardUuid("GPU-00000000-0000-0000-0000-" +
                         std::to_string(100'000'000'000 + node * kCardsPerNode + i));
    card.model = "NVIDIA A100-SXM4-80GB";
    card.memory = MiB(kCardMemoryMiB);
    card.since = "2026-01-01T00:00:00Z";
    facts.push_back(std::move(card));
  }
  return format_node_cards(facts);
}

Json amounts(const Contract& contract, std::size_t core, std::int64_t memory) {
  return {{contract.core_resource, std::to_string(core)},
          {contract.memory_resource, std::to_string(memory)}};
}

const Contract& contract() {
  static const Contract shared = *Contract::for_domain(kDefaultResourceDomain);
  return shared;
}

}  // namespace

std::string node_name(std::size_t number) {
  return "gpu-node-" + std::to_string(number);
}

PodLocation location_of_pod(std::size_t number) {
  const std::size_t first = number / kGroupPods * kGroupNodes;
  const std::size_t pod = number % kGroupPods;
  if (pod < 16) return {first, pod / 2};
  if (pod < 24) return {first + 1, pod - 16};
  return {first + 2, (pod - 24) / 2};
}

std::string node_object(std::size_t number) {
  Json sizes =
      amounts(contract(), kCardsPerNode * 100, std::int64_t{kCardsPerNode} * kCardMemoryMiB);
  sizes["cpu"] = "128";
  sizes["memory"] = "1Ti";
  return Json{{"apiVersion", "v1"},
              {"kind", "Node"},
              {"metadata",
               {{"name", node_name(number)},
                {"uid", uid_of("00000001", number)},
                {"resourceVersion", "1"},
                {"labels", {{"kubernetes.io/hostname", node_name(number)}, {"pool", "gpu"}}},
                {"annotations", {{contract().node_cards, cards(number)}}},
                {"managedFields", managed_fields()}}},
              {"spec", {{"podCIDR", "10.0.0.0/24"}}},
              {"status", {{"capacity", sizes}, {"allocatable", sizes}, {"images", images()}}}}
      .dump();
}

std::string pod_object(std::size_t number) {
  const auto [node, card] = location_of_pod(number);
  Json requested = amounts(contract(), kPodCore, kPodMemoryMiB);
  const Json limits = requested;
  requested["cpu"] = "4";
  requested["memory"] = "16Gi";
  const std::string name = "train-" + std::to_string(number);
  const Json container = {{"name", "app"},
                          {"image", "registry.example/team/image-1:v1.2.3"},
                          {"args", {"--epochs", "100", "--data", "/data", "--model", "/model"}},
                          {"resources", {{"limits", limits}, {"requests", requested}}},
                          {"volumeMounts", {{{"name", "data"}, {"mountPath", "/data"}}}}};
  return Json{
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata",
       {{"name", name},
        {"namespace", "default"},
        {"uid", uid_of("00000002", number)},
        {"resourceVersion", "1"},
        {"labels", {{"app", "train"}, {"team", "vision"}, {"pod-template-hash", "5d4f"}}},
        {"annotations",
         {{contract().assumed, "true"}, {contract().index_key("app"), std::to_string(card)}}},
        {"managedFields", managed_fields()}}},
      {"spec",
       {{"nodeName", node_name(node)},
        {"schedulerName", "default-scheduler"},
        {"containers", {container}},
        {"volumes", {{{"name", "data"}, {"emptyDir", Json::object()}}}},
        {"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}}},
      {"status",
       {{"phase", "Running"},
        {"startTime", "2026-01-01T00:00:00Z"},
        {"podIP", "10.0.0.7"},
        {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}}
      .dump();
}

}  // namespace mgpu::bench
