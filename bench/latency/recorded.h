// Messages of a real kube-scheduler (test/golden/kube-scheduler-*), compiled into the program.
#pragma once

#include <string_view>

namespace mgpu::bench {

extern const std::string_view kRecordedFilter;      // node names; a pod with two containers
extern const std::string_view kRecordedFullFilter;  // Node objects; a pod with one container
extern const std::string_view kRecordedBind;

}  // namespace mgpu::bench
