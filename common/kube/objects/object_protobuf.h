// Objects in Kubernetes' protobuf encoding, which costs the API server a fraction of what JSON does
// (k8s.io/apimachinery pkg/runtime/serializer/protobuf). The readers of object_json.h call these
// for texts that are not JSON. Strings that are not UTF-8 get U+FFFD for each bad byte, as
// kube-apiserver writes them in JSON. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/objects.h"
#include "common/kube/request.h"

namespace mgpu::kube {

// An object or a list begins with "k8s" and a zero byte.
bool is_protobuf(std::string_view text);
// An event of a watch begins with the tag of its first field, which is a line feed.
bool is_protobuf_event(std::string_view text);

// Errors: it is not a message of this form; its kind is another one.
Result<Pod> read_pod_protobuf(std::string_view text);
Result<ListPage> read_list_page_protobuf(std::string_view text);
// Errors: those, and a type that does not exist.
Result<WatchLine> read_watch_event_protobuf(std::string_view text);
// Empty where it is not a Status.
Status read_status_protobuf(std::string_view text);
// "namespace/name", or "name"; empty where it cannot be read.
std::string name_in_protobuf(std::string_view text);

// A body of POST pods/{name}/binding.
std::string binding_protobuf(const Binding& binding);
Result<Binding> read_binding_protobuf(std::string_view text);

}  // namespace mgpu::kube
