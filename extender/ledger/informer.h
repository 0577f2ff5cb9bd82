// Turns watch events into ledger calls: one informer for nodes, one for bound pods. A relist is
// gathered first and applied once it is complete; until then the ledger shows what it had.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/contract.h"
#include "common/kube/watcher.h"
#include "extender/ledger/ledger.h"

namespace mgpu::ledger {

// Objects that cannot be read are told to `on_problem` (one sentence) and otherwise left as they
// were; after a relist with such an object nothing that is missing from it is taken as gone, since
// it may be that object. One thread at a time.
class NodeInformer {
 public:
  NodeInformer(Ledger& ledger, const Contract& contract,
               std::function<void(const std::string&)> on_problem);
  void on_event(const kube::WatchEvent& event);

 private:
  void on_relisted(std::vector<NodeFacts> nodes);
  void on_object(const kube::WatchEvent& event);
  void on_unreadable(const std::string& problem);

  Ledger& ledger_;
  const Contract& contract_;
  std::function<void(const std::string&)> on_problem_;
  std::vector<NodeFacts> relisted_;
  std::size_t unreadable_ = 0;  // in this relist
};

class PodInformer {
 public:
  // `on_settled`: of each pod that the API server shows as bound, finished or gone. `on_bound`: of
  // each that it shows as bound.
  PodInformer(
      Ledger& ledger, const Contract& contract, std::function<void(const std::string&)> on_problem,
      std::function<void(const PodUid&)> on_settled = [](const PodUid&) {},
      std::function<void(const kube::Pod&)> on_bound = [](const kube::Pod&) {});
  void on_event(const kube::WatchEvent& event);

 private:
  void on_relisted(std::vector<Claim> claims, std::vector<PlainPod> plain);
  void on_object(const kube::WatchEvent& event);
  void on_unreadable(const std::string& problem);
  void on_listed(const kube::Pod& pod);
  void on_changed(const kube::Pod& pod, kube::WatchEvent::Kind kind);

  Ledger& ledger_;
  const Contract& contract_;
  std::function<void(const std::string&)> on_problem_;
  std::function<void(const PodUid&)> on_settled_;
  std::function<void(const kube::Pod&)> on_bound_;
  std::vector<Claim> relisted_;
  std::vector<PlainPod> relisted_plain_;
  std::size_t unreadable_ = 0;  // in this relist
};

}  // namespace mgpu::ledger
