#include "common/kube/object_fields.h"

#include <string>

namespace mgpu::kube {
namespace {

// kube-apiserver returns managedFields exactly as a client sent them, which need not be UTF-8. They
// must not make an object, or its page, unreadable.
constexpr bool kReplaceBadBytes = true;

Metadata read_metadata(JsonValue& from) {
  Metadata metadata;
  std::string deletion;
  from.read({{"name", metadata.name},
             {"namespace", metadata.name_space},
             {"uid", metadata.uid},
             {"resourceVersion", metadata.resource_version},
             {"annotations", metadata.annotations},
             {"labels", metadata.labels},
             {"deletionTimestamp", deletion}});
  metadata.being_deleted = !deletion.empty();
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
