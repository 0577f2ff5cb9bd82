// What the in-memory API server serves, and where: paths and field selectors. Pure; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::kube {

// A collection and the words that Kubernetes has for it.
struct ServedKind {
  std::string_view prefix;       // "/apis/policy/v1"
  std::string_view plural;       // "poddisruptionbudgets"
  std::string_view kind;         // "PodDisruptionBudget"
  std::string_view api_version;  // "policy/v1"
  bool in_namespaces = true;
  bool has_status = false;  // as a subresource
  // What field selectors may name besides metadata.name and metadata.namespace.
  std::vector<std::string_view> fields;
};
const std::vector<ServedKind>& served_kinds();

using Query = std::map<std::string, std::string, std::less<>>;

struct ApiPath {
  std::size_t kind = 0;    // index into served_kinds()
  std::string name_space;  // empty: all namespaces, or none
  std::string name;        // empty: the collection
  std::string subresource;
  Query query;  // decoded; of a repeated parameter the first

  std::string_view parameter(std::string_view key) const;
  bool flag(std::string_view key) const;  // "1" or "true"
};

// None: no such path, or not written as RFC 3986 has it. `target` is the path and query of a
// request.
std::optional<ApiPath> read_api_path(std::string_view target);

// One term of a field selector; `field` is an index into StoredObject::fields.
struct FieldTerm {
  std::size_t field;
  bool equal;
  std::string value;
};

// "spec.nodeName=a,status.phase!=Failed". Errors, in the API server's words: a term without an
// operator, a field that `kind` has no selector for.
Result<std::vector<FieldTerm>> read_field_selector(const ServedKind& kind, std::string_view text);

}  // namespace mgpu::kube
