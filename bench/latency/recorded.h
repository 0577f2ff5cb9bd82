// Messages of a real kube-scheduler (test/golden/kube-scheduler-*), compiled in.
#pragma once

#include <string_view>

namespace mgpu::bench {

extern const std::string_view kRecordedFilter;      // names; a pod of two containers
extern const std::string_view kRecordedFullFilter;  // whole nodes; a pod of one container
extern const std::string_view kRecordedBind;

}  // namespace mgpu::bench
