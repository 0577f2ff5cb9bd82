// The validation half of memory_object.h: apimachinery pkg/api/validation and
// pkg/apis/core/validation, for the fields that mgpu and its tests write.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/text.h"
#include "common/contract/quantity.h"
#include "common/kube/memory/object.h"

namespace mgpu::kube {
namespace {

using Problem = std::optional<ObjectProblem>;

constexpr std::size_t kNameMax = 253;  // DNS-1123 subdomain
constexpr std::size_t kLabelMax = 63;  // DNS-1123 label; the name part of a qualified name
constexpr std::size_t kAnnotationsMax = 262'144;

bool is_lower_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_alnum(char c) {
  return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

bool is_dns_label(std::string_view text) {
  return !text.empty() && is_lower_alnum(text.front()) && is_lower_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_lower_alnum(c) || c == '-'; });
}

bool is_dns_subdomain(std::string_view text) {
  if (text.size() > kNameMax) return false;
  while (true) {
    const std::size_t dot = text.find('.');
    if (!is_dns_label(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

// What is wrong with [prefix/]name; empty: nothing.
std::string_view qualified_name_problem(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash != std::string_view::npos && !is_dns_subdomain(key.substr(0, slash))) {
    return "prefix part must be a lowercase RFC 1123 subdomain";
  }
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (name.size() > kLabelMax) return "name part must be no more than 63 bytes";
  const auto is_inner = [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; };
  const bool good = !name.empty() && is_alnum(name.front()) && is_alnum(name.back()) &&
                    std::all_of(name.begin(), name.end(), is_inner);
  return good ? "" : "name part must consist of alphanumeric characters, '-', '_' or '.'";
}

Problem invalid(std::string_view path, std::string_view value, std::string_view why) {
  return ObjectProblem{false, std::string(path) + ": Invalid value: \"" +
                                  std::string(cut_text(value, 100)) + "\": " + std::string(why)};
}

Problem required(std::string_view path, std::string_view why = "") {
  return ObjectProblem{
      false, std::string(path) + ": Required value" + (why.empty() ? "" : ": ") + std::string(why)};
}

Problem validate_metadata(const Json& metadata) {
  const std::string name = text_at(metadata, "name");
  if (name.empty()) return required("metadata.name", "name or generateName is required");
  if (!is_dns_subdomain(name)) {
    return invalid("metadata.name", name,
                   "a lowercase RFC 1123 subdomain must consist of lower "
                   "case alphanumeric characters, '-' or '.', and must start and end with an "
                   "alphanumeric character");
  }
  const std::string name_space = text_at(metadata, "namespace");
  if (!name_space.empty() && (!is_dns_label(name_space) || name_space.size() > kLabelMax)) {
    return invalid("metadata.namespace", "", "must be a lowercase RFC 1123 label");
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : member(metadata, "annotations").items()) {
    const std::string_view problem = qualified_name_problem(key);
    if (!problem.empty()) return invalid("metadata.annotations", key, problem);
    bytes += key.size() + value.get_ref<const std::string&>().size();
  }
  if (bytes <= kAnnotationsMax) return {};
  return ObjectProblem{false, "metadata.annotations: Too long: may not be more than 262144 bytes"};
}

// Extended resources are those outside kubernetes.io: device plugins' and ours.
bool is_extended(std::string_view resource) {
  const std::size_t slash = resource.find('/');
  return slash != std::string_view::npos && !resource.starts_with("requests.") &&
         resource.substr(0, slash).find("kubernetes.io") == std::string_view::npos;
}

CanonicalQuantity amount_of(const Json& amounts, const std::string& resource) {
  return canonical_quantity(text_at(Json{{"q", member(amounts, resource)}}, "q"))
      .value_or(CanonicalQuantity{});
}

Problem validate_amounts(const Json& amounts, const std::string& path) {
  for (const auto& [resource, text] : amounts.items()) {
    const auto quantity = canonical_quantity(text.get_ref<const std::string&>());
    const std::string field = path + "[" + std::string(cut_text(resource, 100)) + "]";
    if (!quantity || quantity->value < 0) {
      return invalid(field, text.get<std::string>(), "must be greater than or equal to 0");
    }
    if (is_extended(resource) && !quantity->whole) {
      return invalid(field, quantity->text, "must be an integer");
    }
  }
  return {};
}

Problem validate_requests(const Json& resources, const std::string& path) {
  const Json& limits = member(resources, "limits");
  for (const auto& [resource, text] : member(resources, "requests").items()) {
    const bool limited = !member(limits, resource).is_null();
    if (!limited && !is_extended(resource)) continue;
    if (!limited) {
      return required(path + ".limits", "Limit must be set for non overcommitable resources");
    }
    const double asked = amount_of(member(resources, "requests"), resource).value;
    const CanonicalQuantity most = amount_of(limits, resource);
    if (is_extended(resource) ? asked == most.value : asked <= most.value) continue;
    const std::string_view rule = is_extended(resource) ? "equal to " : "less than or equal to ";
    return invalid(path + ".requests", text.get<std::string>(),
                   "must be " + std::string(rule) + resource + " limit of " + most.text);
  }
  return {};
}

Problem validate_container(const Json& container, const std::string& path) {
  const std::string name = text_at(container, "name");
  if (name.empty()) return required(path + ".name");
  if (!is_dns_label(name) || name.size() > kLabelMax) {
    return invalid(path + ".name", name,
                   "a lowercase RFC 1123 label must consist of lower case "
                   "alphanumeric characters or '-', and must start and end with an alphanumeric "
                   "character");
  }
  if (text_at(container, "image").empty()) return required(path + ".image");
  const Json& resources = member(container, "resources");
  const std::string at = path + ".resources";
  if (auto problem = validate_amounts(member(resources, "limits"), at + ".limits")) return problem;
  if (auto problem = validate_amounts(member(resources, "requests"), at + ".requests")) {
    return problem;
  }
  return validate_requests(resources, at);
}

Problem validate_pod(const Json& pod) {
  const Json& spec = member(pod, "spec");
  if (member(spec, "containers").empty()) return required("spec.containers");
  for (const std::string list : {"initContainers", "containers"}) {
    const Json& containers = member(spec, list);
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const std::string path = "spec." + list + "[" + std::to_string(i) + "]";
      if (auto problem = validate_container(containers[i], path)) return problem;
    }
  }
  return {};
}

Problem validate_node(const Json& node) {
  const Json& status = member(node, "status");
  if (auto problem = validate_amounts(member(status, "capacity"), "status.capacity")) {
    return problem;
  }
  return validate_amounts(member(status, "allocatable"), "status.allocatable");
}

// The spec without what an update may change.
Json fixed_part(const Json& pod) {
  Json spec = member(pod, "spec");
  for (const char* const name : {"activeDeadlineSeconds", "tolerations", "schedulingGates",
                                 "terminationGracePeriodSeconds"}) {
    spec.erase(name);
  }
  for (const char* const list : {"initContainers", "containers"}) {
    if (!spec.contains(list)) continue;
    for (auto& container : spec[list]) container.erase("image");
  }
  return spec;
}

}  // namespace

std::optional<ObjectProblem> validate(const ServedKind& kind, const Json& object) {
  if (auto problem = validate_metadata(member(object, "metadata"))) return problem;
  if (kind.kind == "Pod") return validate_pod(object);
  if (kind.kind == "Node") return validate_node(object);
  return {};
}

std::optional<ObjectProblem> validate_update(const ServedKind& kind, const Json& before,
                                             const Json& after) {
  if (kind.kind != "Pod" || fixed_part(before) == fixed_part(after)) return {};
  return ObjectProblem{
      false,
      "spec: Forbidden: pod updates may not change fields other than "
      "`spec.containers[*].image`,`spec.initContainers[*].image`,"
      "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
      "tolerations),`spec.terminationGracePeriodSeconds`"};
}

}  // namespace mgpu::kube
