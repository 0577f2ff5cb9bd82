// A trace's nodes and pods as the product knows them.
//
// openb says nothing of card memory. Two ways to give it some:
//
//   none       cards have 16 TiB, shares ask for 1 MiB: memory decides nothing.
//   reference  cards have what their model has (the table in objects.cc; 16384 MiB where it is not
//              there). A share of p percent asks for
//                  16384 MiB * min(1, p/100 * m), rounded up to whole 256 MiB,
//              but at most for all of the smallest card among the models it accepts (of those that
//              the cluster has), rounded down to 256 MiB. m is one of 0.5, 0.75, 1, 1.25, 1.5, by
//              the FNV-1a hash of the pod's name in the trace modulo 5. Whole cards come with all
//              of their memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace/trace_files.h"
#include "common/contract/contract.h"
#include "common/kube/objects.h"
#include "extender/ledger/claim.h"

namespace mgpu::trace {

enum class MemoryRule : std::uint8_t { kNone, kReference };

// Of one trace under one rule; the trace outlives it. Constant after construction: any thread.
class Objects {
 public:
  Objects(const Trace& trace, MemoryRule rule);

  const Trace& trace() const { return trace_; }
  const Contract& contract() const { return contract_; }

  MiB card_memory(const std::string& model) const;
  // Of each card; zero for whole cards and pods without cards.
  MiB share_memory(std::size_t pod) const { return share_memory_[pod]; }

  extender::NodeFacts node_facts(std::size_t node, NodeName name) const;
  // Pending, and as the contract wants it: limits for cards, requests for CPU and memory, the
  // models as an annotation. `uid` becomes its name, too.
  kube::Pod pod(std::size_t pod, const std::string& uid) const;

 private:
  MiB smallest_card_of(const TracePod& pod) const;
  MiB memory_by_rule(const TracePod& pod) const;

  const Trace& trace_;
  MemoryRule rule_;
  Contract contract_;
  std::vector<MiB> share_memory_;  // by pod
};

}  // namespace mgpu::trace
