// Traces of a few nodes and pods, written as text. Entries are separated by ";".
//
//   node  "n0 64000/1000 2xT4"       cpu_milli/memory_mib, cards x model
//         "n1 8000/1000"             a node without cards
//   pod   "p0 4000/100 1x460 G2|T4"  cpu_milli/memory_mib, cards x gpu_milli, accepted models
//         "p1 4000/100"              a non-GPU pod
//
// REQUIRES: at least one pod requests cards.
#pragma once

#include <string_view>

#include "bench/trace/trace_files.h"

namespace mgpu::test {

trace::Trace trace_of(std::string_view nodes, std::string_view pods);

}  // namespace mgpu::test
