#include "bench/apiserver/path.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/parse_path.hpp>

#include "common/base/text.h"

namespace mgpu::kube {
namespace {

// The fields are those of Kubernetes (pkg/apis/core/v1/conversion.go, pkg/registry/core/node).
const std::vector<ServedKind> kServedKinds{
    {.prefix = "/api/v1",
     .plural = "nodes",
     .kind = "Node",
     .in_namespaces = false,
     .has_status = true,
     .fields = {"metadata.name", "metadata.namespace", "spec.unschedulable"}},
    {.prefix = "/api/v1",
     .plural = "pods",
     .kind = "Pod",
     .has_status = true,
     .fields = {"metadata.name", "metadata.namespace", "spec.nodeName", "status.phase",
                "spec.schedulerName", "spec.restartPolicy", "spec.serviceAccountName",
                "status.nominatedNodeName"}},
    {.prefix = "/apis/policy/v1",
     .plural = "poddisruptionbudgets",
     .kind = "PodDisruptionBudget",
     .has_status = true},
    {.prefix = "/apis/storage.k8s.io/v1",
     .plural = "csistoragecapacities",
     .kind = "CSIStorageCapacity"},
    {.prefix = "/apis/scheduling.k8s.io/v1beta1", .plural = "podgroups", .kind = "PodGroup"},
    {.prefix = "/apis/coordination.k8s.io/v1", .plural = "leases", .kind = "Lease"},
    {.prefix = "/api/v1", .plural = "services", .kind = "Service", .has_status = true},
    {.prefix = "/apis/discovery.k8s.io/v1", .plural = "endpointslices", .kind = "EndpointSlice"},
    {.prefix = "/api/v1",
     .plural = "events",
     .kind = "Event",
     .fields = {"metadata.name", "metadata.namespace", "involvedObject.kind",
                "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "reason",
                "type"}},
    {.prefix = "/api/v1",
     .plural = "secrets",
     .kind = "Secret",
     .fields = {"metadata.name", "metadata.namespace", "type"}},
    // The last one, since the paths of the others begin with its paths.
    {.prefix = "/api/v1",
     .plural = "namespaces",
     .kind = "Namespace",
     .in_namespaces = false,
     .fields = {"metadata.name", "metadata.namespace", "status.phase"}},
};

// `text` is a path: prefix[/namespaces/namespace]/plural[/name[/subresource]].
bool read_as(const ServedKind& kind, std::string_view text, ApiPath& path) {
  if (!text.starts_with(kind.prefix)) return false;
  const auto parsed = boost::urls::parse_path(text.substr(kind.prefix.size()));
  if (!parsed || !parsed->is_absolute()) return false;
  std::vector<std::string> segments;
  for (const auto& segment : *parsed) segments.push_back(segment.decode());
  if (kind.in_namespaces && segments.size() > 2 && segments[0] == "namespaces") {
    path.name_space = segments[1];
    segments.erase(segments.begin(), segments.begin() + 2);
    if (path.name_space.empty()) return false;
  }
  const std::size_t size = segments.size();
  if (size == 0 || size > 3 || segments[0] != kind.plural) return false;
  if (kind.in_namespaces && path.name_space.empty() && size > 1) return false;
  if (size > 1) path.name = segments[1];
  if (size > 2) path.subresource = segments[2];
  return !segments.back().empty() && (size == 1 || !path.name.empty());
}

Result<FieldTerm> read_term(const ServedKind& kind, std::string_view selector,
                            std::string_view term) {
  for (const std::string_view op : {"!=", "==", "="}) {
    const std::size_t at = term.find(op);
    if (at == std::string_view::npos) continue;
    const std::string_view name = term.substr(0, at);
    const auto field = std::find(kind.fields.begin(), kind.fields.end(), name);
    if (field == kind.fields.end()) {
      return error(fmt::format("field label not supported: {}", cut_text(name, 100)));
    }
    return FieldTerm{static_cast<std::size_t>(field - kind.fields.begin()),
                     op != "!=", std::string(term.substr(at + op.size()))};
  }
  return error(fmt::format("invalid selector: '{}'; can't understand '{}'", cut_text(selector, 100),
                           cut_text(term, 100)));
}

}  // namespace

const std::vector<ServedKind>& served_kinds() {
  return kServedKinds;
}

std::string_view ApiPath::parameter(std::string_view key) const {
  const auto found = query.find(key);
  return found == query.end() ? std::string_view() : found->second;
}

bool ApiPath::flag(std::string_view key) const {
  const std::string_view value = parameter(key);
  return value == "1" || value == "true";
}

std::optional<ApiPath> read_api_path(std::string_view target) {
  const auto url = boost::urls::parse_origin_form(target);
  if (!url) return std::nullopt;
  for (std::size_t kind = 0; kind < kServedKinds.size(); ++kind) {
    ApiPath path;
    path.kind = kind;
    if (!read_as(kServedKinds[kind], url->encoded_path(), path)) continue;
    for (const auto& parameter : url->params()) {
      path.query.try_emplace(parameter.key, parameter.value);
    }
    return path;
  }
  return std::nullopt;
}

Result<std::vector<FieldTerm>> read_field_selector(const ServedKind& kind, std::string_view text) {
  std::vector<FieldTerm> terms;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    if (part.empty()) continue;
    auto term = read_term(kind, text, part);
    if (!term) return term.error();
    terms.push_back(*std::move(term));
  }
  return terms;
}

}  // namespace mgpu::kube
