#include "common/kube/objects/object_fields.h"

#include <optional>
#include <string>
#include <utility>

#include "common/base/rfc3339.h"

namespace mgpu::kube {
namespace {

// kube-apiserver returns managedFields exactly as a client sent them, which need not be UTF-8. They
// must not make an object, or its page, unreadable.
constexpr bool kReplaceBadBytes = true;

// An object has at most one such owner. Who reads the others needs no more of them than this.
std::optional<OwnerRef> read_controller(JsonValue& list) {
  std::optional<OwnerRef> found;
  list.elements([&found](JsonValue& element) {
    OwnerRef owner;
    bool controller = false;
    element.read({{"kind", owner.kind}, {"name", owner.name}, {"controller", controller}});
    if (controller && !found) found = std::move(owner);
  });
  return found;
}

Metadata read_metadata(JsonValue& from) {
  Metadata metadata;
  std::string deletion;
  from.read({{"name", metadata.name},
             {"namespace", metadata.name_space},
             {"uid", metadata.uid},
             {"resourceVersion", metadata.resource_version},
             {"annotations", metadata.annotations},
             {"labels", metadata.labels},
             {"deletionTimestamp", deletion},
             {"deletionGracePeriodSeconds",
              [&metadata](JsonValue& value) {
                std::int32_t seconds = 0;
                const std::string problem =
                    value.try_read([&seconds](JsonValue& number) { seconds = number.int32(); });
                if (problem.empty()) metadata.deletion_grace_seconds = seconds;
              }},
             {"ownerReferences", [&metadata](JsonValue& list) {
                // Nothing depends on it but reports, so it makes no object unreadable.
                (void)list.try_read([&metadata](JsonValue& owners) {
                  metadata.controller = read_controller(owners);
                });
              }}});
  metadata.being_deleted = !deletion.empty();
  metadata.deletion_time = read_rfc3339(deletion);
  return metadata;
}

}  // namespace

JsonField metadata_of(Metadata& to) {
  return {"metadata", [&to](JsonValue& from) { to = read_metadata(from); }};
}

Result<void> read_object(std::string_view json, const std::function<void(JsonValue& root)>& read) {
  return read_json(json, read, kReplaceBadBytes);
}

}  // namespace mgpu::kube
