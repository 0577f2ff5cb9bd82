// The nodes and pods of a trace as Kubernetes objects.
//
// The openb traces have no card memory. There are two rules that add it:
//
//   none       Cards have 16 TiB and shares request 1 MiB, so memory never limits a placement.
//   reference  Cards have the memory of their model (table in objects.cc, 16384 MiB for others). A
//              share of p percent requests
//                  16384 MiB * min(1, p/100 * m), rounded up to a multiple of 256 MiB,
//              but at most the memory of the smallest card in the cluster whose model it accepts,
//              rounded down to a multiple of 256 MiB. m is 0.5, 0.75, 1, 1.25 or 1.5, selected by
//              the FNV-1a hash of the pod's name in the trace modulo 5. Whole cards include all
//              of their memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/trace/trace_files.h"
#include "common/contract/contract.h"
#include "common/kube/objects/objects.h"
#include "extender/ledger/claim.h"

namespace mgpu::trace {

enum class MemoryRule : std::uint8_t { kNone, kReference };

// The objects of one trace under one rule. REQUIRES: the trace outlives them. Constant after
// construction, and therefore thread-safe.
class Objects {
 public:
  Objects(const Trace& trace, MemoryRule rule);

  const Trace& trace() const { return trace_; }
  const Contract& contract() const { return contract_; }

  MiB card_memory(const std::string& model) const;
  // Requested memory of each card. Zero for whole cards and for pods without cards.
  MiB share_memory(std::size_t pod) const { return share_memory_[pod]; }

  extender::NodeFacts node_facts(std::size_t node, NodeName name) const;
  // A pending pod: its limits name the cards, its requests CPU and memory, and an annotation the
  // models. `uid` is also its name.
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
