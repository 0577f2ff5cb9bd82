// The collections of the in-memory API server, their paths and field selectors. Pure; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace mgpu::kube {

// A collection and its names in Kubernetes.
struct ServedKind {
  std::string_view prefix;    // "/apis/policy/v1"
  std::string_view plural;    // "poddisruptionbudgets"
  std::string_view kind;      // "PodDisruptionBudget"
  bool in_namespaces = true;  // false: cluster-scoped
  bool has_status = false;    // as a subresource
  // The fields that a selector may name. The first two are metadata.name and metadata.namespace.
  std::vector<std::string_view> fields{"metadata.name", "metadata.namespace"};

  // "policy/v1"
  std::string_view api_version() const { return prefix.substr(prefix.find('/', 1) + 1); }
};
const std::vector<ServedKind>& served_kinds();

struct ApiPath {
  std::size_t kind = 0;    // index into served_kinds()
  std::string name_space;  // empty: all namespaces, or a cluster-scoped kind
  std::string name;        // empty: the collection
  std::string subresource;
  // The query, decoded. Of a repeated parameter the first one counts.
  std::map<std::string, std::string, std::less<>> query;

  const ServedKind& served() const { return served_kinds()[kind]; }
  // "namespace/name", or "name" of a cluster-scoped object.
  std::string key() const { return name_space.empty() ? name : name_space + "/" + name; }
  // Empty if the query does not have it.
  std::string_view parameter(std::string_view key) const;
  bool flag(std::string_view key) const;  // "1" or "true"
};

// `target` is the path and query of a request. None: there is no such path, or it does not follow
// RFC 3986.
std::optional<ApiPath> read_api_path(std::string_view target);

// One term of a field selector; `field` is an index into StoredObject::fields.
struct FieldTerm {
  std::size_t field;
  bool equal;
  std::string value;
};

// "spec.nodeName=a,status.phase!=Failed". Errors, as kube-apiserver writes them: a term without an
// operator, a field that `kind` has no selector for.
Result<std::vector<FieldTerm>> read_field_selector(const ServedKind& kind, std::string_view text);

}  // namespace mgpu::kube
