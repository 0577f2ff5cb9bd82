// Traces of a few nodes and pods, as text.
//
//   nodes  "n0 64000/1000 2xT4"          cpu_milli/memory_mib, cards x model; "n1 8000/1000" has
//   none pods   "p0 4000/100 1x460 G2|T4"     cards x gpu_milli, and where they matter models
//
// separated by ";". One pod at least asks for cards.
#pragma once

#include <string_view>

#include "bench/trace/trace_files.h"

namespace mgpu::test {

trace::Trace trace_of(std::string_view nodes, std::string_view pods);

}  // namespace mgpu::test
