// A binder over the in-memory API server.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/apiserver/api_server.h"
#include "bench/apiserver/limits.h"
#include "common/kube/client.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/watch/reflector.h"
#include "extender/bind/binder.h"
#include "extender/bind/start_sequence.h"
#include "extender/ledger/consumers.h"
#include "test/extender/verbs/verbs_world.h"

namespace mgpu::extender::test {

inline kube::Request post_pod(const PodText& pod) {
  kube::Request request;
  request.method = kube::Method::kPost;
  request.target = "/api/v1/namespaces/d/pods";
  request.body = pod_json(pod);
  request.content_type = "application/json";
  return request;
}

inline kube::Request delete_pod(const std::string& name, int grace = 0) {
  kube::Request request;
  request.method = kube::Method::kDelete;
  request.target =
      "/api/v1/namespaces/d/pods/" + name + "?gracePeriodSeconds=" + std::to_string(grace);
  return request;
}

inline bool is_bind(const kube::Request& request) {
  return request.method == kube::Method::kPost && request.target.ends_with("/binding");
}

inline bool is_lease(const kube::Request& request) {
  return request.target.find("/leases") != std::string::npos;
}

// A GET of a pod.
inline bool is_get(const kube::Request& request) {
  return request.method == kube::Method::kGet && !is_lease(request);
}

inline bool is_dry_run(const kube::Request& request) {
  return request.target.ends_with("?dryRun=All");
}

inline bool is_touch(const kube::Request& request) {
  return request.method == kube::Method::kPatch && request.target.ends_with("/status");
}

// What one process needs for its binds. Every instance has an identity of its own.
struct Process {
  Process(kube::Client& client, const Contract& contract)
      : lease(client, {"kube-system", "mgpu-extender"}, next_identity(),
              [this](const std::string& sentence) { lost = sentence; }),
        touch(client, contract, lease.identity(),
              [this](TouchResult result) { touches.push_back(result); }),
        preconditions(client) {}

  BindGuards guards() { return {lease, touch, preconditions}; }
  static std::string next_identity() {
    static std::atomic<int> last{0};
    return "process_" + std::to_string(++last);
  }

  std::string lost;
  std::vector<TouchResult> touches;
  HolderLease lease;
  PodTouch touch;
  PreconditionCheck preconditions;
};

inline kube::Pod pod_at(kube::MemoryApiServer& server, const std::string& name) {
  const auto response = server.call(kube::get_pod({"d", name}));
  EXPECT_TRUE(response.ok()) << response.body;
  return *kube::read_pod(response.body);
}

// Creates the pod and returns what kube-scheduler sends to bind it.
inline BindingArgs create(kube::MemoryApiServer& server, PodText pod, const std::string& node) {
  pod.with_uid = false;
  const auto response = server.call(post_pod(pod));
  EXPECT_TRUE(response.ok()) << response.body;
  return {{"d", pod.name}, kube::read_pod(response.body)->uid(), NodeName(node)};
}

// Creates a pod of about this many bytes.
inline BindingArgs create_long(kube::MemoryApiServer& server, std::size_t bytes,
                               const std::string& node) {
  return create(server, {.spec = R"("hostname":")" + std::string(bytes, 'x') + R"(",)"}, node);
}

// Creates a pod to which nothing of 64 bytes or more can be added.
inline BindingArgs create_full(kube::MemoryApiServer& server, const std::string& node) {
  std::size_t room = 0;
  while (true) {
    room += 32;
    PodText pod{.with_uid = false};
    pod.spec =
        R"("hostname":")" + std::string(kube::kMemoryApiObjectBytesMax - room, 'x') + R"(",)";
    const auto response = server.call(post_pod(pod));
    if (response.ok())
      return {{"d", pod.name}, kube::read_pod(response.body)->uid(), NodeName(node)};
  }
}

// The highest compute in use of any card, by the annotations of the bound pods at the API server.
// Every container of the test pods requests a share of one card, or whole cards.
inline std::int64_t fullest_card(kube::MemoryApiServer& server) {
  const Contract contract = *Contract::for_domain(kDefaultResourceDomain);
  const auto list = server.call(kube::list(kube::bound_pods(), 0, ""));
  const auto page = kube::read_list_page(list.body);
  EXPECT_TRUE(page) << list.body;
  std::map<std::pair<std::string, int>, std::int64_t> cards;
  std::int64_t fullest = 0;
  for (const auto& item : page->items) {
    const kube::Pod pod = *kube::read_pod(item);
    for (const auto& container : pod.containers) {
      const auto core = container.limits.find(contract.core_resource);
      if (core == container.limits.end()) continue;
      const auto indices =
          parse_card_indices(pod.metadata.annotations.at(contract.index_key(container.name)));
      for (const CardIndex index : *indices) {
        auto& used = cards[{pod.node_name, index.value()}];
        used += std::stoll(core->second) / std::ssize(*indices);
        fullest = std::max(fullest, used);
      }
    }
  }
  return fullest;
}

// Keeps a ledger equal to the bound pods of the server, as the extender does.
class PodWatch {
 public:
  PodWatch(kube::Transport& transport, Ledger& ledger, const Contract& contract)
      : reflector_("pods", kube::bound_pods(), transport,
                   pod_consumer(ledger, contract, PodEvents()), kube::ReflectorEvents()) {
    reflector_.start();
  }
  bool synced() const { return reflector_.synced(); }

 private:
  kube::Reflector reflector_;
};

}  // namespace mgpu::extender::test
