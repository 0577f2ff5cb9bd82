// The readers of the objects with which replicas elect a leader.
#include <string>
#include <utility>

#include "common/kube/objects/object_fields.h"
#include "common/kube/objects/object_json.h"

namespace mgpu::kube {

Result<Lease> read_lease(std::string_view json) {
  Metadata metadata;
  Lease lease;
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(metadata), {"spec", [&](JsonValue& spec) {
                                         spec.read({{"holderIdentity", lease.holder},
                                                    {"leaseDurationSeconds", lease.duration_s},
                                                    {"acquireTime", lease.acquire_time},
                                                    {"renewTime", lease.renew_time},
                                                    {"leaseTransitions", lease.transitions}});
                                       }}});
  });
  if (!read) return read.error();
  // Any other JSON object would be read as a Lease without a holder.
  if (metadata.resource_version.empty()) return error("metadata.resourceVersion is missing");
  lease.ref = {std::move(metadata.name_space), std::move(metadata.name)};
  lease.resource_version = std::move(metadata.resource_version);
  return lease;
}

Result<PodGroup> read_pod_group(std::string_view json) {
  PodGroup group;
  const auto read_mode = [&](JsonValue& mode) {
    mode.read({{"all", [&](JsonValue&) { group.evicted_together = true; }}});
  };
  const auto read_spec = [&](JsonValue& spec) { spec.read({{"disruptionMode", read_mode}}); };
  const auto read = read_object(json, [&](JsonValue& root) { root.read({{"spec", read_spec}}); });
  if (!read) return read.error();
  return group;
}

Result<Service> read_service(std::string_view json) {
  Service service;
  const auto read_port = [](JsonValue& port) {
    std::string name;
    port.read({{"name", name}});
    return name;
  };
  const auto read_spec = [&](JsonValue& spec) {
    spec.read({{"selector", [&](JsonValue& from) { service.has_selector = !from.texts().empty(); }},
               {"ports", [&](JsonValue& list) { service.port_names = list.list(read_port); }}});
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(service.metadata), {"spec", read_spec}});
  });
  if (!read) return read.error();
  if (service.metadata.uid.empty()) return error("metadata.uid is missing");
  return service;
}

Result<EndpointSlice> read_endpoint_slice(std::string_view json) {
  EndpointSlice slice;
  const auto read_endpoints = [&](JsonValue& list) {
    list.elements([&](JsonValue& endpoint) {
      endpoint.read({{"addresses", [&](JsonValue& from) {
                        for (std::string& address : from.text_list()) {
                          slice.addresses.push_back(std::move(address));
                        }
                      }}});
    });
  };
  const auto read_ports = [&](JsonValue& list) {
    list.elements([&](JsonValue& port) {
      port.read({{"name", slice.port_name}, {"port", slice.port}});
    });
  };
  const auto read = read_object(json, [&](JsonValue& root) {
    root.read({metadata_of(slice.metadata),
               {"addressType", slice.address_type},
               {"endpoints", read_endpoints},
               {"ports", read_ports}});
  });
  if (!read) return read.error();
  if (slice.metadata.resource_version.empty()) return error("metadata.resourceVersion is missing");
  return slice;
}

}  // namespace mgpu::kube
