#include "bench/parts/requests.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/parts/cluster_objects.h"
#include "common/base/check.h"

namespace mgpu::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kUidDigits = 12;  // the last group of a UID
// Number of different pod requests. A cluster has a few dozen kinds of pods at a time.
constexpr std::size_t kPodKinds = 8;

OrderedJson recorded_pod(PodKind kind) {
  std::ifstream file(MGPU_RECORDED "/filter.json");
  MGPU_CHECK(file.is_open(), "the recorded requests are in the source tree");
  OrderedJson pod = OrderedJson::parse(file)["Pod"];
  OrderedJson& containers = pod["spec"]["containers"];
  MGPU_CHECK(containers.size() == 2, "the recorded pod has two containers");
  if (kind == PodKind::kOneContainer) containers.erase(0);
  return pod;
}

// Sets 5 to 40 % for the pod's last container.
void set_kind_number(OrderedJson& pod, std::size_t kind_number) {
  OrderedJson& resources = pod["spec"]["containers"].back()["resources"];
  for (const char* part : {"limits", "requests"}) {
    for (auto& [resource, amount] : resources[part].items())
      if (resource.ends_with("core")) amount = std::to_string(5 * (kind_number + 1));
  }
}

std::vector<std::size_t> order_of_nodes(std::size_t nodes, std::size_t kind_number) {
  std::mt19937 random(static_cast<std::uint32_t>(kind_number));
  std::vector<std::size_t> order(nodes);
  const std::size_t first = random() % nodes;
  for (std::size_t i = 0; i < nodes; ++i) order[i] = (first + i) % nodes;
  for (std::size_t i = 0; i + 1 < nodes; ++i)
    if (random() % 4 == 0) std::swap(order[i], order[i + 1]);
  return order;
}

std::string uid_digits(std::size_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, kUidDigits - std::min(digits.size(), kUidDigits), '0');
  return digits;
}

}  // namespace

Requests::Requests(std::size_t nodes, PodKind kind) {
  OrderedJson message{{"Pod", recorded_pod(kind)},
                      {"Nodes", OrderedJson(nullptr)},
                      {"NodeNames", OrderedJson(nullptr)}};
  const std::string uid = message["Pod"]["metadata"]["uid"];
  for (std::size_t kind_number = 0; kind_number < kPodKinds; ++kind_number) {
    set_kind_number(message["Pod"], kind_number);
    OrderedJson list = OrderedJson::array();
    for (const std::size_t node : order_of_nodes(nodes, kind_number))
      list.push_back(node_name(node));
    message["NodeNames"] = std::move(list);
    std::string text = message.dump();
    const std::size_t uid_at = text.find(uid);
    MGPU_CHECK(uid_at != std::string::npos, "the recorded pod has a uid");
    bodies_.push_back({std::move(text), uid_at + uid.size() - kUidDigits});
  }
}

std::string_view Requests::next() {
  Body& body = bodies_[next_ % bodies_.size()];
  body.text.replace(body.uid_at, kUidDigits, uid_digits(++next_));
  return body.text;
}

}  // namespace mgpu::bench
