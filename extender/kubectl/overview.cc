// kubectl mgpu without a command: what of the cluster needs attention.
#include <fmt/format.h>

#include <algorithm>

#include "common/kube/request.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"
#include "extender/kubectl/views.h"

namespace mgpu::kubectl {
namespace {

std::string percent_text(const Amounts& amounts) {
  if (amounts.capacity == 0) return "none";
  constexpr double kPercents = 100;
  const double part = static_cast<double>(amounts.used) / static_cast<double>(amounts.capacity);
  return fmt::format("{:.1f} %", kPercents * part);
}

// A line for each of the first rows, with the name in front of the first one.
std::string section(const std::string& name, const std::vector<std::string>& rows, Color color,
                    bool colors) {
  std::string out;
  const std::size_t shown = std::min(rows.size(), kShownObjectsMax);
  for (std::size_t i = 0; i < shown; ++i) {
    out += colored(fmt::format("{:<12}", i == 0 ? name : ""), color, colors) + rows[i] + "\n";
  }
  if (shown < rows.size()) out += fmt::format("{:12}and {} more\n", "", rows.size() - shown);
  return out;
}

class OverviewVerb {
 public:
  void add_flags(Options& options) {
    add_domain_flag(options, domain_);
    add_cluster_flags(options, access_);
    add_extender_flags(options, extender_);
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_, extender_.url);
    if (!cluster) return cluster.error();
    const auto extender = Extender::connect(**cluster, extender_);
    if (!extender) return extender.error();
    const auto nodes = all_nodes(**extender);
    if (!nodes) return nodes.error();
    const auto pods =
        read_pods((*cluster)->api(), {.all = true}, "", *Contract::for_domain(domain_));
    console.print(overview_text(*nodes, pods ? &*pods : nullptr, clock_now(), console.colors));
    return pods ? kSucceeded : fail(console, pods.error().message);
  }

 private:
  ClusterFlags access_;
  ExtenderFlags extender_;
  std::string domain_{kDefaultResourceDomain};
};

}  // namespace

std::string overview_text(const std::vector<InspectedNode>& nodes, const std::vector<PodRow>* pods,
                          Time now, bool colors) {
  std::vector<std::string> broken;
  std::vector<std::string> unhealthy;
  std::vector<std::string> cordoned;
  const auto name_of = [](const std::string& text) {
    return sanitize_for_terminal(text, kShownNameMax);
  };
  for (const InspectedNode& node : nodes) {
    if (!node.problem.empty()) {
      broken.push_back(fmt::format("{}: {}", name_of(node.name),
                                   sanitize_for_terminal(node.problem, kShownSentenceMax)));
    }
    for (const InspectedCard& card : node.cards) {
      const std::string text = fmt::format("{} card {}", name_of(node.name), card.index);
      const std::string state = state_of(card);
      if (state == "Cordoned") cordoned.push_back(text);
      if (state == "Blocked") broken.push_back(text + ": a pod whose cards are not known is on it");
      if (card.overfull) {
        broken.push_back(
            fmt::format("{}: overfull; {}", text,
                        sanitize_for_terminal(card.overfull_detail, kShownSentenceMax)));
      }
      if (state != "Unhealthy") continue;
      unhealthy.push_back(fmt::format(
          "{}: {}", text, sanitize_for_terminal(health_text(card.health, now), kShownSentenceMax)));
    }
  }
  std::vector<std::string> pending;
  for (const PodRow& pod : pods == nullptr ? std::vector<PodRow>() : *pods) {
    if (!pod.node.empty()) continue;
    const std::string age = age_text(pod.created, now);
    pending.push_back(fmt::format(
        "{}/{}{}{}", name_of(pod.ref.name_space), name_of(pod.ref.name),
        age.empty() ? "" : " for " + age,
        pod.message.empty() ? "" : ": " + sanitize_for_terminal(pod.message, kShownSentenceMax)));
  }
  const NodeSums sums = sums_of(nodes);
  if (sums.cards == 0 && broken.empty() && pending.empty()) {
    return fmt::format("{:<12}0 in {}\n\nNo node offers cards; kubectl mgpu doctor says why.\n",
                       "Cards", counted(static_cast<std::int64_t>(nodes.size()), "node"));
  }
  std::string out = fmt::format(
      "{:<12}{} in {}, {} usable, {} idle\n{:<12}{} of the compute, {} of the memory\n"
      "{:<12}{} placed{}\n",
      "Cards", grouped(sums.cards), counted(static_cast<std::int64_t>(nodes.size()), "node"),
      grouped(sums.usable), grouped(sums.free), "Granted", percent_text(sums.core),
      percent_text(sums.memory), "Pods", grouped(sums.pods),
      pods == nullptr ? "" : fmt::format(", {} pending", pending.size()));
  const std::string rows = section("Problems", broken, Color::kRed, colors) +
                           section("Unhealthy", unhealthy, Color::kRed, colors) +
                           section("Cordoned", cordoned, Color::kYellow, colors) +
                           section("Pending", pending, Color::kYellow, colors);
  if (!rows.empty()) out += "\n" + rows;
  return out + "\nkubectl mgpu help lists the commands.\n";
}

Run add_overview(Options& options) {
  return add_command<OverviewVerb>(options);
}

}  // namespace mgpu::kubectl
