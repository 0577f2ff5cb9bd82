#include "extender/kubectl/doctor/read_facts.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "common/base/rfc3339.h"
#include "common/base/text.h"
#include "common/kube/objects/json_value.h"
#include "common/kube/objects/object_fields.h"
#include "common/kube/objects/object_json.h"

namespace mgpu::kubectl {
namespace {

using kube::JsonValue;

// `into` after `read` has filled it.
template <class T>
Result<T> filled(std::string_view json, T into, const std::function<void(JsonValue&, T&)>& read) {
  auto done = kube::read_object(json, [&](JsonValue& root) { read(root, into); });
  if (!done) return done.error();
  return into;
}

// The text of the member at `path`, for example metadata.name; empty if there is none.
Result<std::string> text_at(std::string_view json, std::vector<std::string_view> path) {
  std::string text;
  kube::JsonField field(path.back(), text);
  for (std::size_t i = path.size() - 1; i-- > 0;) {
    field = {path[i], [inner = field](JsonValue& value) { value.read({inner}); }};
  }
  auto done = kube::read_object(json, [&](JsonValue& root) { root.read({field}); });
  if (!done) return done.error();
  return text;
}

// "registry:5000/mgpu-extender:0.1.0@sha256:..." has the tag "0.1.0".
std::string tag_of(std::string image) {
  image = image.substr(0, image.find('@'));
  const std::size_t colon = image.rfind(':');
  if (colon == image.npos || image.find('/', colon) != image.npos) return {};
  return image.substr(colon + 1);
}

void read_program_status(JsonValue& status, ProgramPod& pod) {
  const auto conditions = [&pod](JsonValue& list) {
    list.elements([&pod](JsonValue& one) {
      std::string type;
      std::string value;
      one.read({{"type", type}, {"status", value}});
      if (type == "Ready") pod.ready = value == "True";
    });
  };
  const auto containers = [&pod](JsonValue& list) {
    list.elements([&pod](JsonValue& one) {
      std::string reason;
      const auto waiting = [&reason](JsonValue& state) { state.read({{"reason", reason}}); };
      one.read({{"state", [&](JsonValue& state) { state.read({{"waiting", waiting}}); }}});
      if (pod.waiting.empty()) pod.waiting = reason;
    });
  };
  status.read({{"phase", pod.phase},
               {"podIP", pod.address},
               {"conditions", conditions},
               {"initContainerStatuses", containers},
               {"containerStatuses", containers}});
}

}  // namespace

Result<Version> read_server_version(std::string_view json) {
  const auto text = text_at(json, {"gitVersion"});
  if (!text) return text.error();
  if (auto version = parse_version(*text)) return *version;
  return error("gitVersion must be a version such as \"v1.36.3\", is " + in_quotes(*text));
}

Result<ProgramPod> read_program_pod(std::string_view json) {
  const auto pod = kube::read_pod(json);
  if (!pod) return pod.error();
  ProgramPod program;
  program.ref = pod->ref();
  program.node = pod->node_name;
  program.being_deleted = pod->metadata.being_deleted;
  program.name = text_or_empty(pod->metadata.labels, "app.kubernetes.io/name");
  program.component = text_or_empty(pod->metadata.labels, "app.kubernetes.io/component");
  program.version = text_or_empty(pod->metadata.labels, "app.kubernetes.io/version");
  std::string image;
  const auto containers = [&](JsonValue& list) {
    list.elements([&](JsonValue& one) {
      if (image.empty()) one.read({{"image", image}, {"args", program.arguments}});
    });
  };
  const auto spec = [&](JsonValue& value) {
    value.read({{"serviceAccountName", program.service_account}, {"containers", containers}});
  };
  const auto status = [&](JsonValue& value) { read_program_status(value, program); };
  auto read = kube::read_object(json, [&](JsonValue& root) {
    root.read({{"spec", spec}, {"status", status}});
  });
  if (!read) return read.error();
  if (program.version.empty()) program.version = tag_of(image);
  return program;
}

Result<LeaseFacts> read_lease_facts(std::string_view json) {
  return filled<LeaseFacts>(json, {}, [](JsonValue& root, LeaseFacts& lease) {
    root.read({{"spec", [&lease](JsonValue& spec) {
                  std::int32_t duration = 0;
                  std::string renewed;
                  spec.read({{"holderIdentity", lease.holder},
                             {"leaseDurationSeconds", duration},
                             {"renewTime", renewed}});
                  if (duration > 0) lease.duration_seconds = duration;
                  lease.renewed = read_rfc3339(renewed);
                }}});
  });
}

Result<SliceFacts> read_slice(std::string_view json) {
  return filled<SliceFacts>(json, {}, [](JsonValue& root, SliceFacts& slice) {
    root.read({{"endpoints", [&slice](JsonValue& list) {
                  list.elements([&slice](JsonValue& one) {
                    std::vector<std::string> addresses;
                    bool ready = true;
                    // Not set means ready (discovery.k8s.io/v1 EndpointConditions).
                    const auto conditions = [&ready](JsonValue& value) {
                      value.read({{"ready", [&ready](JsonValue& condition) {
                                     if (condition.kind() == JsonValue::Kind::kBoolean) {
                                       ready = condition.boolean();
                                     }
                                   }}});
                    };
                    one.read({{"addresses", addresses}, {"conditions", conditions}});
                    if (!ready) return;
                    std::ranges::move(addresses, std::back_inserter(slice.addresses));
                  });
                }}});
  });
}

Result<std::string> read_name(std::string_view json) {
  return text_at(json, {"metadata", "name"});
}

Result<std::string> read_namespace(std::string_view json) {
  return text_at(json, {"metadata", "namespace"});
}

// Only what helm has installed has this annotation.
Result<Installer> read_installer(std::string_view json) {
  return filled<Installer>(json, {}, [](JsonValue& root, Installer& installer) {
    kube::StringMap annotations;
    root.read({{"metadata", [&](JsonValue& value) {
                  value.read({{"annotations", annotations}});
                }}});
    const auto release = annotations.find("meta.helm.sh/release-name");
    if (release != annotations.end()) installer.release = release->second;
  });
}

Result<DeviceClass> read_device_class(std::string_view json) {
  auto name = read_name(json);
  if (!name) return name.error();
  auto resource = text_at(json, {"spec", "extendedResourceName"});
  if (!resource) return resource.error();
  return DeviceClass{*std::move(name), *std::move(resource)};
}

Result<PolicyBinding> read_policy_binding(std::string_view json) {
  return filled<PolicyBinding>(json, {}, [](JsonValue& root, PolicyBinding& binding) {
    root.read({{"spec", [&binding](JsonValue& spec) {
                  std::vector<std::string> actions;
                  spec.read({{"policyName", binding.policy}, {"validationActions", actions}});
                  binding.denies = std::ranges::find(actions, "Deny") != actions.end();
                }}});
  });
}

Result<CheckedNode> read_checked_node(std::string_view json) {
  auto node = kube::read_node(json);
  if (!node) return node.error();
  CheckedNode facts{.name = node->metadata.name,
                    .labels = std::move(node->metadata.labels),
                    .annotations = std::move(node->metadata.annotations),
                    .capacity = std::move(node->capacity),
                    .allocatable = std::move(node->allocatable),
                    .conditions = std::move(node->conditions),
                    .kubelet_version = {}};
  return filled<CheckedNode>(json, std::move(facts), [](JsonValue& root, CheckedNode& into) {
    const auto info = [&into](JsonValue& value) {
      value.read({{"kubeletVersion", into.kubelet_version}});
    };
    root.read({{"status", [&](JsonValue& status) { status.read({{"nodeInfo", info}}); }}});
  });
}

Result<GpuPod> read_gpu_pod(std::string_view json) {
  auto pod = kube::read_pod(json);
  if (!pod) return pod.error();
  auto scheduling = kube::read_pod_scheduling(json);
  if (!scheduling) return scheduling.error();
  GpuPod gpu{.pod = *std::move(pod),
             .created = read_rfc3339(scheduling->created),
             .unscheduled_reason = {},
             .unscheduled_message = {},
             .gates = std::move(scheduling->gates)};
  if (scheduling->scheduled.status == "False") {
    gpu.unscheduled_reason = std::move(scheduling->scheduled.reason);
    gpu.unscheduled_message = std::move(scheduling->scheduled.message);
  }
  return gpu;
}

Result<std::map<std::string, bool>> read_feature_gates(std::string_view json) {
  using Gates = std::map<std::string, bool>;
  return filled<Gates>(json, {}, [](JsonValue& root, Gates& gates) {
    const auto read = [&gates](JsonValue& value) {
      value.members([&gates](std::string_view name, JsonValue& gate) {
        gates[std::string(name)] = gate.boolean();
      });
    };
    root.read({{"kubeletconfig", [&](JsonValue& config) {
                  config.read({{"featureGates", read}});
                }}});
  });
}

Result<std::string> read_program_version(std::string_view json) {
  return text_at(json, {"version"});
}

}  // namespace mgpu::kubectl
