#include "bench/sim/demo.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "bench/sim/calls.h"
#include "bench/sim/embedded_cluster.h"
#include "bench/sim/examples.h"
#include "bench/sim/scheduler.h"
#include "common/base/query_text.h"
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
  std::string json;    // as the API server has it
  std::string reason;  // why it is pending
  std::string explained;
};

// kube-scheduler leaves a pod that is being deleted.
constexpr const char* kBeingDeleted = "it is being deleted";

bool is_waiting(const Result<kube::Pod>& pod, const PodState& state) {
  return pod && pod->node_name.empty() && !pod->finished() && state.reason.empty();
}

std::string pod_target(const PodRef& pod) {
  return kube::get_pod(pod).target;
}

class Demo {
 public:
  Demo(EmbeddedCluster& cluster, const Contract& contract, const DemoSettings& settings)
      : cluster_(cluster),
        settings_(settings),
        contract_(contract),
        scheduler_(cluster.api_server(), cluster.extender_client(), contract, kUrlPrefix),
        colors_(isatty(STDOUT_FILENO) == 1),
        live_(!settings.json && colors_) {}

  Result<void> create_objects() {
    for (const std::string& node : settings_.manifests.nodes)
      if (auto made = create("/api/v1/nodes", node); !made) return made.error();
    for (const std::string& pod : settings_.manifests.pods) {
      const Json manifest = Json::parse(pod);
      const std::string name_space = manifest["metadata"].value("namespace", "default");
      auto made = create("/api/v1/namespaces/" + name_space + "/pods", pod);
      if (!made) {
        std::fprintf(stderr, "mgpu-sim: a pod is left out: %s\n", made.error().message.c_str());
        continue;
      }
      auto read = kube::read_pod(*made);
      if (!read) return read.error();
      pods_.push_back({read->ref(), *made, "", ""});
      if (auto set = set_status(pods_.back(), manifest); !set) return set;
      if (read->node_name.empty() && manifest["metadata"].contains("deletionTimestamp"))
        pods_.back().reason = kBeingDeleted;
    }
    if (pods_.empty()) return error("the API server has refused all pods");
    return {};
  }

  Result<void> schedule_all() {
    for (const std::size_t next : queue()) {
      auto decision = scheduler_.schedule(pods_[next].json);
      if (!decision) return decision.error();
      pods_[next].reason = decision->reason;
      if (auto seen = refresh(pods_[next]); !seen) return seen;
      if (live_) show_live();
    }
    for (PodState& pod : pods_)
      if (!pod.reason.empty()) explain(pod);
    return {};
  }

  void print() {
    const std::string text = settings_.json ? json() : (live_ ? "\x1b[H\x1b[2J" : "") + screen();
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  Result<std::string> create(const std::string& collection, const std::string& object) {
    kube::Response response = call(cluster_.api_server(), post_json(collection, object));
    if (!response.ok()) return error(kube::api_error(response).message);
    return std::move(response.body);
  }

  // Gives a pod of a dump its status, which the API server ignores when it creates a pod. One that
  // has finished holds nothing.
  Result<void> set_status(PodState& pod, const Json& manifest) {
    if (!manifest.contains("status") || !manifest["status"].is_object()) return {};
    kube::Request patch =
        post_json(pod_target(pod.ref) + "/status", Json{{"status", manifest["status"]}}.dump());
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

  // Adds what kubectl mgpu explain says of the pod, or the message of an answer without it.
  void explain(PodState& pod) {
    const auto answer =
        call(cluster_.inspection_client(),
             get("/inspect/explain?namespace=" + pod.ref.name_space + "&name=" + pod.ref.name));
    const auto explained = kubectl::Json::parse(answer.body, nullptr, false);
    if (const auto text = kubectl::explain_text(explained, false, colors_)) {
      pod.explained = *text;
    } else if (explained.is_object()) {
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
      if (!after.empty()) next = "/inspect/cluster?limit=500&after=" + query_text(after);
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
      if (row) rows.push_back(*std::move(row));
      if (pod.reason.empty()) continue;
      waiting += "\n" + to_string(pod.ref) + ": " + pod.reason + "\n" + pod.explained;
    }
    return fmt::format(
        "mgpu-extender on 127.0.0.1:{}, annotations under {}/\n\n{}\n{}{}", cluster_.port(),
        contract_.domain, kubectl::cards_view(nodes()).table.text(false, colors_),
        kubectl::pods_view(rows, true, kubectl::clock_now()).table.text(false, colors_), waiting);
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
    std::this_thread::sleep_for(settings_.interval);
  }

  std::string json() const {
    Json all = Json::array();
    for (const PodState& pod : pods_) {
      auto read = kube::read_pod(pod.json);
      if (!read) continue;
      all.push_back({{"name", pod.ref.name},
                     {"namespace", pod.ref.name_space},
                     {"node", read->node_name},
                     {"finished", read->finished()},
                     {"annotations", Json::object()},
                     {"reason", pod.reason}});
      for (const auto& [key, value] : read->metadata.annotations)
        all.back()["annotations"][key] = value;
    }
    return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  EmbeddedCluster& cluster_;
  const DemoSettings& settings_;
  const Contract& contract_;
  Scheduler scheduler_;
  bool colors_;
  bool live_;
  std::vector<PodState> pods_;
};

void print_what_to_try(const EmbeddedCluster& cluster, std::FILE* to) {
  const std::string base = "http://127.0.0.1:" + std::to_string(cluster.inspection_port());
  const std::string verbs = "http://127.0.0.1:" + std::to_string(cluster.port());
  const std::string text =
      "\nThe extender keeps running. Try in another terminal:\n"
      "  curl -s '" +
      base +
      "/inspect/cluster'\n"
      "  curl -s '" +
      base +
      "/inspect/explain?namespace=default&name=POD'\n"
      "  curl -s '" +
      base +
      "/metrics'\n"
      "  curl -s '" +
      verbs + kUrlPrefix +
      "/filter' -H 'Content-Type: application/json' -d '{\"Pod\": "
      "{\"metadata\": {\"name\": \"try\", \"uid\": \"1\"}, \"spec\": {\"containers\": [{\"name\": "
      "\"a\", "
      "\"resources\": {\"limits\": {\"vke.volcengine.com/mgpu-core\": \"30\", "
      "\"vke.volcengine.com/mgpu-memory\": \"1024\"}}}]}}, \"NodeNames\": [\"v100-a\"]}'\n"
      "Ctrl-C stops it.\n";
  std::fputs(text.c_str(), to);
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

Result<void> run_demo(const DemoSettings& settings) {
  auto contract = Contract::for_domain(settings.resource_domain);
  if (!contract) return contract.error();
  auto policy = extender::find_policy(settings.policy);
  if (!policy) return policy.error();
  const extender::Settings verbs{
      .contract = *contract, .min_memory = MiB(settings.min_memory_mib), .policy = *policy};
  sigset_t signals{};
  if (settings.serve) signals = block_stop_signals();
  EmbeddedCluster cluster;
  if (auto started = cluster.start(verbs, settings.port); !started) return started;
  Demo demo(cluster, *contract, settings);
  if (auto made = demo.create_objects(); !made) return made;
  if (auto scheduled = demo.schedule_all(); !scheduled) return scheduled;
  demo.print();
  if (!settings.serve) return {};
  print_what_to_try(cluster, settings.json ? stderr : stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  return {};
}

}  // namespace mgpu::sim
