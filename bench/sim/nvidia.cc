#include "bench/sim/nvidia.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/base/text.h"
#include "common/kube/objects/manifest.h"
#include "common/yaml/json.h"
#include "extender/kubectl/convert/manifests.h"

namespace mgpu::sim {
namespace {

using Json = nlohmann::json;

std::string label_of(const Json& node, const char* name) {
  const Json labels = node["metadata"].value("labels", Json::object());
  const auto found = labels.find(name);
  return found != labels.end() && found->is_string() ? found->get<std::string>() : "";
}

// Nothing for another text than a number from 1 to `most`.
std::optional<std::int64_t> number_in(const std::string& text, std::int64_t most) {
  const auto number = parse_number<std::int64_t>(text);
  return number && *number >= 1 && *number <= most ? number : std::nullopt;
}

}  // namespace

std::string with_labelled_cards(const std::string& text, const Contract& contract) {
  Json node = Json::parse(text);
  const std::string model = label_of(node, "nvidia.com/gpu.product");
  const auto count = number_in(label_of(node, "nvidia.com/gpu.count"),
                               static_cast<std::int64_t>(kCardsPerNodeMax));
  const auto memory = number_in(label_of(node, "nvidia.com/gpu.memory"), kCardMemoryMiBMax);
  const bool has_own =
      node["metadata"].value("annotations", Json::object()).contains(contract.node_cards);
  if (has_own || model.empty() || !count || !memory) return text;
  std::vector<CardFacts> cards;
  for (std::int32_t i = 0; i < *count; ++i) {
    cards.push_back({.index = CardIndex(i),
                     .uuid = CardUuid(fmt::format("GPU-{}", i)),
                     .model = model,
                     .memory = MiB(*memory)});
  }
  node["metadata"]["annotations"][contract.node_cards] = format_node_cards(cards);
  for (const char* member : {"capacity", "allocatable"}) {
    Json& amounts = node["status"][member];
    amounts[contract.core_resource] = std::to_string(*count * kWholeCard.value());
    amounts[contract.memory_resource] = std::to_string(*count * *memory);
  }
  return node.dump();
}

Result<std::string> with_own_requests(const std::string& text, const Contract& contract) {
  kubectl::convert::ConvertOptions options;
  options.contract = contract;
  const auto converted = kubectl::convert::convert_manifests(text, options);
  if (!converted) return converted.error();
  if (!converted->refusals.empty()) return error(converted->refusals.front());
  if (converted->changes.empty()) return text;
  const auto manifest = kube::read_manifest(converted->text);
  if (!manifest) return manifest.error();
  Json pod = Json::parse(yaml::json_of(*manifest->objects.front().object));
  // Where it runs now says nothing of the cards that mgpu would give it.
  pod["spec"].erase("nodeName");
  pod.erase("status");
  return pod.dump();
}

bool requests_gpus(const std::string& text) {
  const Json pod = Json::parse(text);
  const Json spec = pod.value("spec", Json::object());
  for (const char* list : {"containers", "initContainers"}) {
    for (const Json& container : spec.value(list, Json::array())) {
      const Json resources = container.value("resources", Json::object());
      for (const char* side : {"limits", "requests"}) {
        const Json amounts = resources.value(side, Json::object());
        for (const auto& [name, amount] : amounts.items()) {
          const bool is_gpu = lower_case(name).find("gpu") != std::string::npos;
          if (is_gpu || name.starts_with("nvidia.com/")) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace mgpu::sim
