#include "common/kube/memory_path.h"

#include <algorithm>
#include <charconv>

#include "common/text.h"

namespace mgpu::kube {
namespace {

// The fields are those of Kubernetes (pkg/apis/core/v1/conversion.go, pkg/registry/core/node).
const std::vector<ServedKind> kServedKinds{
    {.prefix = "/api/v1",
     .plural = "nodes",
     .kind = "Node",
     .api_version = "v1",
     .in_namespaces = false,
     .has_status = true,
     .fields = {"spec.unschedulable"}},
    {.prefix = "/api/v1",
     .plural = "pods",
     .kind = "Pod",
     .api_version = "v1",
     .has_status = true,
     .fields = {"spec.nodeName", "status.phase", "spec.schedulerName", "spec.restartPolicy",
                "spec.serviceAccountName", "status.nominatedNodeName"}},
    {.prefix = "/apis/policy/v1",
     .plural = "poddisruptionbudgets",
     .kind = "PodDisruptionBudget",
     .api_version = "policy/v1",
     .has_status = true,
     .fields = {}},
    {.prefix = "/apis/storage.k8s.io/v1",
     .plural = "csistoragecapacities",
     .kind = "CSIStorageCapacity",
     .api_version = "storage.k8s.io/v1",
     .fields = {}},
    {.prefix = "/api/v1",
     .plural = "events",
     .kind = "Event",
     .api_version = "v1",
     .fields = {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
                "involvedObject.uid", "reason", "type"}},
    // Last: the others live below its paths.
    {.prefix = "/api/v1",
     .plural = "namespaces",
     .kind = "Namespace",
     .api_version = "v1",
     .in_namespaces = false,
     .fields = {"status.phase"}},
};

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const hex = text.data() + i + 1;
    if (text[i] == '%' && text.size() - i > 2 &&
        std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Query read_query(std::string_view text) {
  Query query;
  for (const std::string_view part : split(text, '&')) {
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view value = part.substr(std::min(equals + 1, part.size()));
    query.try_emplace(percent_decoded(part.substr(0, equals)), percent_decoded(value));
  }
  return query;
}

// Reads what follows the collection: nothing, /name, /name/subresource.
bool read_rest(std::string_view rest, ApiPath& path) {
  if (rest.empty()) return true;
  if (!rest.starts_with('/')) return false;
  const auto parts = split(rest.substr(1), '/');
  if (parts.size() > 2) return false;
  path.name = percent_decoded(parts[0]);
  if (parts.size() == 2) path.subresource = percent_decoded(parts[1]);
  return !path.name.empty() && (parts.size() == 1 || !path.subresource.empty());
}

bool read_as(const ServedKind& kind, std::string_view text, ApiPath& path) {
  constexpr std::string_view kNamespaces = "/namespaces/";
  if (!text.starts_with(kind.prefix)) return false;
  text.remove_prefix(kind.prefix.size());
  if (kind.in_namespaces && text.starts_with(kNamespaces)) {
    text.remove_prefix(kNamespaces.size());
    const std::size_t end = std::min(text.find('/'), text.size());
    path.space = percent_decoded(text.substr(0, end));
    text.remove_prefix(end);
    if (path.space.empty()) return false;
  }
  if (!text.starts_with('/') || !text.substr(1).starts_with(kind.plural)) return false;
  text.remove_prefix(1 + kind.plural.size());
  if (kind.in_namespaces && path.space.empty() && !text.empty()) return false;
  return read_rest(text, path);
}

std::optional<std::size_t> field_index(const ServedKind& kind, std::string_view field) {
  if (field == "metadata.name") return 0;
  if (field == "metadata.namespace") return 1;
  const auto found = std::find(kind.fields.begin(), kind.fields.end(), field);
  if (found == kind.fields.end()) return std::nullopt;
  return 2 + static_cast<std::size_t>(found - kind.fields.begin());
}

Result<FieldTerm> read_term(const ServedKind& kind, std::string_view selector,
                            std::string_view term) {
  for (const std::string_view op : {"!=", "==", "="}) {
    const std::size_t at = term.find(op);
    if (at == std::string_view::npos) continue;
    const std::string_view name = term.substr(0, at);
    const auto field = field_index(kind, name);
    if (!field) return error("field label not supported: " + std::string(cut_text(name, 100)));
    return FieldTerm{*field, op != "!=", std::string(term.substr(at + op.size()))};
  }
  return error("invalid selector: '" + std::string(cut_text(selector, 100)) +
               "'; can't understand '" + std::string(cut_text(term, 100)) + "'");
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
  const std::size_t end = std::min(target.find('?'), target.size());
  for (std::size_t kind = 0; kind < kServedKinds.size(); ++kind) {
    ApiPath path;
    path.kind = kind;
    if (!read_as(kServedKinds[kind], target.substr(0, end), path)) continue;
    path.query = read_query(target.substr(std::min(end + 1, target.size())));
    return path;
  }
  return std::nullopt;
}

Result<std::vector<FieldTerm>> read_field_selector(const ServedKind& kind, std::string_view text) {
  std::vector<FieldTerm> terms;
  for (const std::string_view part : split(text, ',')) {
    if (part.empty()) continue;
    auto term = read_term(kind, text, part);
    if (!term) return term.error();
    terms.push_back(*std::move(term));
  }
  return terms;
}

}  // namespace mgpu::kube
