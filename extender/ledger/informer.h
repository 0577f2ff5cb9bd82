// Turns watch events into ledger calls: one informer for nodes, one for bound pods. A relist is
// gathered and swapped in whole.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/contract.h"
#include "common/kube/watcher.h"
#include "extender/ledger/ledger.h"

namespace mgpu::ledger {

// Objects that cannot be read are told to `on_problem` (one sentence) and otherwise left as they
// were. One thread at a time.
class NodeInformer {
 public:
  NodeInformer(Ledger& ledger, const Contract& contract,
               std::function<void(const std::string&)> on_problem);
  void on_event(const kube::WatchEvent& event);

 private:
  Ledger& ledger_;
  const Contract& contract_;
  std::function<void(const std::string&)> on_problem_;
  std::vector<NodeFacts> relisted_;
};

class PodInformer {
 public:
  PodInformer(Ledger& ledger, const Contract& contract,
              std::function<void(const std::string&)> on_problem);
  void on_event(const kube::WatchEvent& event);

 private:
  Ledger& ledger_;
  const Contract& contract_;
  std::function<void(const std::string&)> on_problem_;
  std::vector<Claim> relisted_;
};

}  // namespace mgpu::ledger
