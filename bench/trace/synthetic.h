// The synthetic workload (bench/trace/synthetic), compiled in so that the command needs no files.
// trace_files.h describes its columns.
#pragma once

#include <string_view>

namespace mgpu::trace {

std::string_view synthetic_nodes();
std::string_view synthetic_pods();

}  // namespace mgpu::trace
