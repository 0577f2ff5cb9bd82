#include "bench/latency/requests.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/latency/limits.h"
#include "bench/latency/recorded.h"
#include "bench/scale/cluster_objects.h"
#include "bench/trace/node_sample.h"
#include "common/base/check.h"

namespace mgpu::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kUidDigits = 12;  // the last group of a UID

OrderedJson recorded_pod(PodKind kind) {
  const bool one = kind == PodKind::kOneContainer;
  return OrderedJson::parse(one ? kRecordedFullFilter : kRecordedFilter)["Pod"];
}

// 5 to 40 % for the pod's last container.
void set_kind_number(OrderedJson& pod, std::size_t kind_number) {
  OrderedJson& resources = pod["spec"]["containers"].back()["resources"];
  for (const char* part : {"limits", "requests"}) {
    for (auto& [resource, amount] : resources[part].items())
      if (resource.ends_with("core")) amount = std::to_string(5 * (kind_number + 1));
  }
}

// The first `count` nodes of the order of one kind of pods.
std::vector<std::size_t> order_of_nodes(std::size_t nodes, std::size_t kind_number,
                                        std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(kind_number));
  std::vector<std::size_t> order(nodes);
  const std::size_t first = random() % nodes;
  for (std::size_t i = 0; i < nodes; ++i) order[i] = (first + i) % nodes;
  for (std::size_t i = 0; i + 1 < nodes; ++i)
    if (random() % 4 == 0) std::swap(order[i], order[i + 1]);
  order.resize(count);
  return order;
}

std::string uid_digits(std::size_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, kUidDigits - std::min(digits.size(), kUidDigits), '0');
  return digits;
}

OrderedJson small_pod_json(std::size_t number) {
  OrderedJson pod = recorded_pod(PodKind::kOneContainer);
  const std::string digits = uid_digits(number);
  pod["metadata"]["name"] = "bound-" + digits;
  pod["metadata"]["uid"] = "00000003-0000-4000-8000-" + digits;
  return pod;
}

// Replaces every `part` of `text`. REQUIRES: there is at least one.
std::string replaced(std::string text, std::string_view part, std::string_view with) {
  std::size_t at = text.find(part);
  MGPU_CHECK(at != std::string::npos, "the text contains the part");
  for (; at != std::string::npos; at = text.find(part, at + with.size()))
    text.replace(at, part.size(), with);
  return text;
}

}  // namespace

std::string_view name(Form form) {
  if (form == Form::kNodes) return "nodes";
  return form == Form::kNames ? "names" : "sampled names";
}

Requests::Requests(std::size_t nodes, Form form, PodKind kind) {
  OrderedJson message{{"Pod", recorded_pod(kind)},
                      {"Nodes", OrderedJson(nullptr)},
                      {"NodeNames", OrderedJson(nullptr)}};
  const std::string uid = message["Pod"]["metadata"]["uid"];
  const auto sampling =
      form == Form::kSampled ? trace::Sampling::kKubeScheduler : trace::Sampling::kAll;
  const std::size_t count = trace::nodes_to_find(sampling, nodes);
  for (std::size_t kind_number = 0; kind_number < limits::kPodKinds; ++kind_number) {
    set_kind_number(message["Pod"], kind_number);
    OrderedJson list = OrderedJson::array();
    for (const std::size_t node : order_of_nodes(nodes, kind_number, count))
      list.push_back(form == Form::kNodes ? OrderedJson::parse(node_object(node))
                                          : OrderedJson(node_name(node)));
    if (form == Form::kNodes)
      message["Nodes"] = {{"metadata", OrderedJson::object()}, {"items", std::move(list)}};
    else
      message["NodeNames"] = std::move(list);
    std::string text = message.dump();
    const std::size_t uid_at = text.find(uid);
    MGPU_CHECK(uid_at != std::string::npos, "the recorded pod has a uid");
    bodies_.push_back({std::move(text), uid_at + uid.size() - kUidDigits});
    // A Node object has about 4 KiB and a request up to 60 MiB, so there is only one such request.
    if (form == Form::kNodes) break;
  }
}

std::string_view Requests::next() {
  Body& body = bodies_[next_ % bodies_.size()];
  body.text.replace(body.uid_at, kUidDigits, uid_digits(++next_));
  return body.text;
}

std::string small_pod(std::size_t number) {
  static const std::string kPod = small_pod_json(0).dump();
  return replaced(kPod, uid_digits(0), uid_digits(number));
}

std::string bound_pod(std::size_t number, std::string_view node, std::string_view annotations) {
  static const std::string kPod = [] {
    OrderedJson pod = small_pod_json(0);
    pod["metadata"]["annotations"] = "@annotations";
    pod["spec"]["nodeName"] = "@node";
    pod["status"]["phase"] = "Running";
    return pod.dump();
  }();
  std::string pod = replaced(kPod, uid_digits(0), uid_digits(number));
  pod = replaced(std::move(pod), "@node", node);
  return replaced(std::move(pod), R"("@annotations")", annotations);
}

std::string filter_one(std::size_t number, std::string_view node) {
  std::string message = R"({"Pod":)" + small_pod(number);
  return message.append(R"(,"Nodes":null,"NodeNames":[")").append(node).append(R"("]})");
}

std::string bind_one(std::size_t number, std::string_view node) {
  static const std::string kMessage = [] {
    const OrderedJson pod = small_pod_json(0);
    OrderedJson message = OrderedJson::parse(kRecordedBind);
    message["PodName"] = pod["metadata"]["name"];
    message["PodNamespace"] = pod["metadata"]["namespace"];
    message["PodUID"] = pod["metadata"]["uid"];
    message["Node"] = "@node";
    return message.dump();
  }();
  return replaced(replaced(kMessage, uid_digits(0), uid_digits(number)), "@node", node);
}

}  // namespace mgpu::bench
