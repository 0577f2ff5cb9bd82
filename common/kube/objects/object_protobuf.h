// Pods and what they come in, in Kubernetes' protobuf encoding, which costs the API server a
// fraction of what JSON does (k8s.io/apimachinery pkg/runtime/serializer/protobuf). Strings that
// are not UTF-8 get U+FFFD for each bad byte, as kube-apiserver writes them in JSON. Pure; any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kube {

// The bodies of answers. Errors: it is not a message of this form; its kind is another one.
Result<ListPage> read_pod_list_protobuf(std::string_view body);
// Empty if it is not a Status.
Status read_status_protobuf(std::string_view body);
// Errors: those, and a type that does not exist.
Result<WatchLine> read_pod_event_protobuf(std::string_view event);

// An item of a list or the object of an event.
Result<Pod> read_pod_protobuf(std::string_view message);
// "namespace/name", or "name"; empty if it cannot be read.
std::string name_in_protobuf(std::string_view message);

// A body of POST pods/{name}/binding.
std::string binding_protobuf(const Binding& binding);
Result<Binding> read_binding_protobuf(std::string_view body);

}  // namespace mgpu::kube
