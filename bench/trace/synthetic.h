// The workload that ships, compiled in so that the command needs no files. Made for this project;
// its columns are those of trace_files.h.
#pragma once

#include <string_view>

namespace mgpu::trace {

std::string_view synthetic_nodes();
std::string_view synthetic_pods();

}  // namespace mgpu::trace
