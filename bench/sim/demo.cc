#include "bench/sim/demo.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "bench/sim/calls.h"
#include "bench/sim/embedded_cluster.h"
#include "bench/sim/examples.h"
#include "bench/sim/nvidia.h"
#include "bench/sim/scheduler.h"
#include "common/base/text.h"
#include "common/kube/client.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/request.h"
#include "extender/kubectl/age.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/explain_text.h"
#include "extender/kubectl/views.h"
#include "extender/placement/policy.h"

namespace mgpu::sim {
namespace {

using Json = nlohmann::json;

struct PodState {
  PodRef ref;
  std::string json;    // as the API server has it; of a pod that is refused, as the file has it
  std::string reason;  // why it is pending
  std::string explained{};
  bool refused = false;
};

// kube-scheduler leaves a pod that is being deleted.
constexpr const char* kBeingDeleted = "it is being deleted";

constexpr std::chrono::milliseconds kNodesSeenMax{2'000};
constexpr std::chrono::milliseconds kNodesPoll{10};

bool is_waiting(const Result<kube::Pod>& pod, const PodState& state) {
  return pod && pod->node_name.empty() && !pod->finished() && state.reason.empty();
}

std::string pod_target(const PodRef& pod) {
  return kube::get_pod(pod).target;
}

std::string web_address(const EmbeddedCluster& cluster) {
  return fmt::format("http://127.0.0.1:{}/web/", cluster.inspection_port());
}

class Demo {
 public:
  Demo(EmbeddedCluster& cluster, const Contract& contract, const DemoOptions& options)
      : cluster_(cluster),
        options_(options),
        contract_(contract),
        scheduler_(cluster.api_server(), cluster.extender_client(), kUrlPrefix),
        colors_(isatty(STDOUT_FILENO) == 1),
        live_(!options.json && colors_) {}

  Result<void> create_objects() {
    for (const std::string& node : options_.manifests.nodes) {
      const std::string own = with_labelled_cards(node, contract_);
      nodes_of_labels_ += own == node ? 0 : 1;
      nodes_with_cards_ += own.find(contract_.node_cards) == own.npos ? 0 : 1;
      if (auto made = create("/api/v1/nodes", own); !made) return made.error();
    }
    for (const std::string& pod : options_.manifests.pods) {
      if (!requests_gpus(pod)) {
        ++pods_without_cards_;
      } else if (auto added = add_pod(pod); !added) {
        return added;
      }
    }
    return {};
  }

  Result<void> schedule_all() {
    // The watch of the extender is behind what was just made. It leaves out what it cannot read.
    const auto end = std::chrono::steady_clock::now() + kNodesSeenMax;
    while (nodes().size() < nodes_with_cards_ && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(kNodesPoll);
    for (const std::size_t next : queue()) {
      auto decision = scheduler_.schedule(pods_[next].json);
      if (!decision) return decision.error();
      pods_[next].reason = decision->reason;
      if (!decision->reason.empty()) {
        // As kube-scheduler says it in the pod.
        const Json condition = {{"type", "PodScheduled"},
                                {"status", "False"},
                                {"reason", "Unschedulable"},
                                {"message", decision->reason}};
        auto set = patch_status(pods_[next], {{"conditions", Json::array({condition})}});
        if (!set) return set;
      }
      if (auto seen = refresh(pods_[next]); !seen) return seen;
      if (live_) show_live();
    }
    for (PodState& pod : pods_)
      if (!pod.refused) explain(pod);
    return {};
  }

  void print() {
    const std::string text = options_.json ? json() : (live_ ? "\x1b[H\x1b[2J" : "") + screen();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  Result<std::string> create(const std::string& collection, const std::string& object) {
    kube::Response response = call(cluster_.api_server(), post_json(collection, object));
    if (!response.ok()) return error(kube::api_error(response).message);
    return std::move(response.body);
  }

  // A pod that cannot be made is shown as refused, and the others go on.
  Result<void> add_pod(const std::string& text) {
    const Json manifest = Json::parse(text);
    const std::string name_space = manifest["metadata"].value("namespace", "default");
    const PodRef ref{name_space, manifest["metadata"].value("name", "")};
    const auto refused = [&](const std::string& reason) {
      pods_.push_back({.ref = ref, .json = text, .reason = reason, .refused = true});
    };
    const std::string phase = manifest.value("status", Json::object()).value("phase", "");
    const bool finished = phase == "Succeeded" || phase == "Failed";
    const auto own = finished ? Result<std::string>(text) : with_own_requests(text, contract_);
    if (!own) {
      refused("cannot be converted: " + own.error().message);
      return {};
    }
    pods_converted_ += *own == text ? 0 : 1;
    auto made = create("/api/v1/namespaces/" + name_space + "/pods", *own);
    if (!made) {
      const std::string& why = made.error().message;
      const bool is_text = why.find("quantities must match") != why.npos;
      refused("refused by the API server: " + why +
              (is_text ? "; expected whole numbers: mgpu-core in percent of a card, without %, and "
                         "mgpu-memory in MiB"
                       : ""));
      return {};
    }
    auto read = kube::read_pod(*made);
    if (!read) return read.error();
    pods_.push_back({.ref = read->ref(), .json = *made, .reason = ""});
    const Json status = Json::parse(*own).value("status", Json());
    if (status.is_object()) {
      if (auto set = patch_status(pods_.back(), status); !set) return set;
    }
    if (read->node_name.empty() && manifest["metadata"].contains("deletionTimestamp"))
      pods_.back().reason = kBeingDeleted;
    return {};
  }

  // Gives a pod a status, which the API server ignores when it creates a pod. One of a dump that
  // has finished holds nothing.
  Result<void> patch_status(PodState& pod, const Json& status) {
    kube::Request patch =
        post_json(pod_target(pod.ref) + "/status", Json{{"status", status}}.dump());
    patch.method = kube::Method::kPatch;
    patch.content_type = "application/merge-patch+json";
    kube::Response response = call(cluster_.api_server(), patch);
    if (!response.ok()) return error(kube::api_error(response).message);
    pod.json = std::move(response.body);
    return {};
  }

  // Indices of the pending pods, highest priority first and then in the order of the file, like
  // kube-scheduler's queue.
  std::vector<std::size_t> queue() const {
    std::vector<std::pair<std::int64_t, std::size_t>> order;
    for (std::size_t i = 0; i < pods_.size(); ++i) {
      const auto pod = kube::read_pod(pods_[i].json);
      if (is_waiting(pod, pods_[i])) order.emplace_back(-std::int64_t{pod->priority}, i);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> indices;
    for (const auto& [priority, index] : order) indices.push_back(index);
    return indices;
  }

  Result<void> refresh(PodState& pod) {
    const kube::Request request = get(pod_target(pod.ref));
    auto body = body_of(request, call(cluster_.api_server(), request));
    if (!body) return body.error();
    pod.json = std::move(*body);
    return {};
  }

  // Adds what kubectl mgpu explain says of a pending pod, or the message of an answer without it;
  // of others, only the message, such as that about an annotation that has no effect.
  void explain(PodState& pod) {
    const auto answer =
        call(cluster_.inspection_client(),
             get("/inspect/explain?namespace=" + pod.ref.name_space + "&name=" + pod.ref.name));
    const auto explained = kubectl::Json::parse(answer.body, nullptr, false);
    const auto text = kubectl::explain_text(explained, false, colors_);
    if (text && !pod.reason.empty()) {
      pod.explained = *text;
    } else if (explained.is_object() && explained.contains("message") &&
               (!pod.reason.empty() || explained.contains("policy"))) {
      pod.explained = explained.value("message", "") + "\n";
    }
  }

  // The nodes of the extender, page by page.
  std::vector<kubectl::InspectedNode> nodes() {
    std::vector<kubectl::InspectedNode> all;
    for (std::string next = "/inspect/cluster?limit=500"; !next.empty();) {
      const auto answer = call(cluster_.inspection_client(), get(next));
      const auto page = kubectl::Json::parse(answer.body, nullptr, false);
      next.clear();
      if (!page.is_object()) break;
      if (auto read = kubectl::read_inspected_nodes(page))
        std::ranges::move(*read, std::back_inserter(all));
      const std::string after = page.value("next", "");
      if (!after.empty()) next = "/inspect/cluster?limit=500&after=" + kube::query_text(after);
    }
    return all;
  }

  // What kubectl mgpu shows of cards and pods, and why pods wait.
  std::string screen() {
    std::vector<kubectl::PodRow> rows;
    std::string waiting;
    for (const PodState& pod : pods_) {
      const auto read = kubectl::read_gpu_pod(pod.json);
      auto row = read ? kubectl::pod_row(*read, contract_) : std::nullopt;
      if (pod.refused) row = kubectl::PodRow{.ref = pod.ref, .status = "Refused", .broken = true};
      if (row) rows.push_back(*std::move(row));
      if (pod.reason.empty() && pod.explained.empty()) continue;
      const std::string reason = pod.reason.empty() ? "" : pod.reason + "\n";
      waiting += "\n" + to_string(pod.ref) + ": " + reason + pod.explained;
    }
    const auto cards = nodes();
    return fmt::format(
        "{}{}\n{}\n{}{}\n{}\n", head(), foreign_text(),
        kubectl::cards_view(cards, kubectl::clock_now()).table.text(false, colors_),
        kubectl::pods_view(rows, true, kubectl::clock_now()).table.text(false, colors_), waiting,
        summary(cards, rows));
  }

  std::string head() const {
    std::string text = fmt::format("mgpu-extender on 127.0.0.1:{}, annotations under {}/\n",
                                   cluster_.port(), contract_.domain);
    if (!options_.serve) return text;
    return fmt::format("Open {} in a browser. Ctrl-C ends it.\n{}", web_address(cluster_), text);
  }

  // Which part of the cluster is not mgpu's.
  std::string foreign_text() const {
    std::string text;
    if (nodes_of_labels_ > 0 || pods_converted_ > 0) {
      text += fmt::format(
          "This is how mgpu would see your cluster: {} of {} nodes have the cards of NVIDIA's "
          "labels, and {} pods were converted and placed anew.\n",
          nodes_of_labels_, options_.manifests.nodes.size(), pods_converted_);
    }
    if (pods_without_cards_ > 0)
      text += fmt::format("Left out because they request no GPUs: {} pods.\n", pods_without_cards_);
    return text;
  }

  // "132 of 160 pods run on 220 cards, of whose compute 96.9 % is granted."
  static std::string summary(const std::vector<kubectl::InspectedNode>& nodes,
                             const std::vector<kubectl::PodRow>& pods) {
    const auto bound =
        std::ranges::count_if(pods, [](const kubectl::PodRow& pod) { return !pod.node.empty(); });
    kubectl::Amounts core;
    std::int64_t cards = 0;
    for (const kubectl::InspectedNode& node : nodes) {
      cards += static_cast<std::int64_t>(node.cards.size());
      for (const kubectl::InspectedCard& card : node.cards) {
        core.used += card.core.used;
        core.capacity += card.core.capacity;
      }
    }
    const double granted = core.capacity == 0 ? 0
                                              : 100 * static_cast<double>(core.used) /
                                                    static_cast<double>(core.capacity);
    return fmt::format("{} of {} run on {}, of whose compute {:.1f} % is granted.", bound,
                       counted(static_cast<std::int64_t>(pods.size()), "pod"),
                       counted(cards, "card"), granted);
  }

  // Cuts the text to the height of the terminal, so that it does not scroll.
  void show_live() {
    winsize window{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 1;
    std::string text = screen();
    std::size_t end = 0;
    for (int row = 1; known && row < window.ws_row && end != std::string::npos; ++row)
      end = text.find('\n', end == 0 ? 0 : end + 1);
    if (known && end != std::string::npos) text.resize(end);
    std::fputs("\x1b[H\x1b[2J", stdout);
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    std::this_thread::sleep_for(options_.interval);
  }

  std::string json() const {
    Json all = Json::array();
    for (const PodState& pod : pods_) {
      const auto read = kube::read_pod(pod.json);
      const bool known = read && !pod.refused;
      all.push_back({{"name", pod.ref.name},
                     {"namespace", pod.ref.name_space},
                     {"node", known ? read->node_name : ""},
                     {"finished", known && read->finished()},
                     {"annotations", Json::object()},
                     {"reason", pod.reason}});
      if (!known) continue;
      for (const auto& [key, value] : read->metadata.annotations)
        all.back()["annotations"][key] = value;
    }
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  EmbeddedCluster& cluster_;
  const DemoOptions& options_;
  const Contract& contract_;
  Scheduler scheduler_;
  bool colors_;
  bool live_;
  std::vector<PodState> pods_;
  std::size_t nodes_with_cards_ = 0;
  std::size_t nodes_of_labels_ = 0;
  std::size_t pods_converted_ = 0;
  std::size_t pods_without_cards_ = 0;
};

// As demo.sh builds it, or by the name that an installed one has.
std::string kubectl_mgpu() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto built = self.parent_path().parent_path() / "extender/kubectl-mgpu";
  return std::filesystem::exists(built, failed) ? built.string() : "kubectl-mgpu";
}

void print_what_to_try(const EmbeddedCluster& cluster, std::FILE* to) {
  const std::string base = fmt::format("http://127.0.0.1:{}", cluster.inspection_port());
  fmt::print(to,
             "\nThe extender and its page keep running: {}\n"
             "Try in another terminal:\n"
             "  {} cards --url {}\n"
             "  curl -s '{}/inspect/cluster'\n"
             "  curl -s '{}/metrics'\n"
             "Ctrl-C stops it.\n",
             web_address(cluster), kubectl_mgpu(), base, base, base);
  std::fflush(to);
}

// Blocks these signals in this thread and in all threads that it starts. sigwait receives them.
sigset_t block_stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace

Result<Manifests> embedded_nodes() {
  return read_manifests(kExampleNodes, "the embedded nodes");
}

Result<Manifests> embedded_pods() {
  return read_manifests(kExamplePods, "the embedded pods");
}

Result<void> run_demo(const DemoOptions& options) {
  auto contract = Contract::for_domain(options.resource_domain);
  if (!contract) return contract.error();
  auto policy = extender::find_policy(options.policy);
  if (!policy) return policy.error();
  const extender::VerbOptions verbs{
      .contract = *contract, .min_memory = MiB(options.min_memory_mib), .policy = *policy};
  sigset_t signals{};
  if (options.serve) signals = block_stop_signals();
  EmbeddedCluster cluster;
  const std::uint16_t web_port = options.serve ? options.web_port : std::uint16_t{0};
  if (auto started = cluster.start(verbs, options.port, web_port); !started) return started;
  Demo demo(cluster, *contract, options);
  if (auto made = demo.create_objects(); !made) return made;
  if (auto scheduled = demo.schedule_all(); !scheduled) return scheduled;
  demo.print();
  if (!options.serve) return {};
  print_what_to_try(cluster, options.json ? stderr : stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  return {};
}

}  // namespace mgpu::sim
