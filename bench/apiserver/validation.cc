// The validation of object.h: apimachinery pkg/api/validation and pkg/apis/core/validation, for the
// fields that mgpu and its tests write.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "bench/apiserver/object.h"
#include "common/base/text.h"
#include "common/contract/quantity.h"

namespace mgpu::kube {
namespace {

constexpr std::size_t kNameMax = 253;  // DNS-1123 subdomain
constexpr std::size_t kLabelMax = 63;  // DNS-1123 label; the name part of a qualified name
constexpr std::size_t kAnnotationsMax = 262'144;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
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

[[noreturn]] void invalid(std::string_view path, std::string_view value, std::string_view why) {
  throw ObjectProblem{
      false, fmt::format("{}: Invalid value: \"{}\": {}", path, cut_text(value, 100), why)};
}

[[noreturn]] void required(std::string_view path) {
  throw ObjectProblem{false, fmt::format("{}: Required value", path)};
}

// `key` is [prefix/]name.
void validate_annotation_key(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash != std::string_view::npos && !is_dns_subdomain(key.substr(0, slash))) {
    invalid("metadata.annotations", key, "prefix part must be a lowercase RFC 1123 subdomain");
  }
  const std::string_view name = slash == std::string_view::npos ? key : key.substr(slash + 1);
  if (name.size() > kLabelMax) {
    invalid("metadata.annotations", key, "name part must be no more than 63 bytes");
  }
  const auto is_inner = [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; };
  if (name.empty() || !is_alnum(name.front()) || !is_alnum(name.back()) ||
      !std::all_of(name.begin(), name.end(), is_inner)) {
    invalid("metadata.annotations", key,
            "name part must consist of alphanumeric characters, '-', '_' or '.'");
  }
}

void validate_metadata(const Json& metadata) {
  const std::string name = text_at(metadata, "name");
  if (name.empty()) {
    throw ObjectProblem{false, "metadata.name: Required value: name or generateName is required"};
  }
  if (!is_dns_subdomain(name)) {
    invalid("metadata.name", name,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character");
  }
  const std::string name_space = text_at(metadata, "namespace");
  if (!name_space.empty() && (!is_dns_label(name_space) || name_space.size() > kLabelMax)) {
    invalid("metadata.namespace", "", "must be a lowercase RFC 1123 label");
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : member(metadata, "annotations").items()) {
    validate_annotation_key(key);
    bytes += key.size() + value.get_ref<const std::string&>().size();
  }
  if (bytes <= kAnnotationsMax) return;
  throw ObjectProblem{false, "metadata.annotations: Too long: may not be more than 262144 bytes"};
}

// Extended resources are those outside kubernetes.io, such as those of device plugins.
bool is_extended(std::string_view resource) {
  const std::size_t slash = resource.find('/');
  return slash != std::string_view::npos && !resource.starts_with("requests.") &&
         resource.substr(0, slash).find("kubernetes.io") == std::string_view::npos;
}

// `holder`'s maps of quantities `names`; `path` is that of `holder`.
void validate_amounts(const Json& holder, const std::string& path,
                      std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (const auto& [resource, text] : member(holder, name).items()) {
      const auto quantity = canonical_quantity(text.get_ref<const std::string&>());
      const std::string field = fmt::format("{}.{}[{}]", path, name, cut_text(resource, 100));
      if (!quantity || quantity->value < 0) {
        invalid(field, text.get<std::string>(), "must be greater than or equal to 0");
      }
      if (is_extended(resource) && !quantity->whole) {
        invalid(field, quantity->text, "must be an integer");
      }
    }
  }
}

double amount_of(const std::string& quantity) {
  return canonical_quantity(quantity).value_or(CanonicalQuantity{}).value;
}

// REQUIRES: validate_amounts passed.
void validate_requests(const Json& resources, const std::string& path) {
  const Json& limits = member(resources, "limits");
  for (const auto& [resource, text] : member(resources, "requests").items()) {
    const Json& limit = member(limits, resource);  // no path: the name may contain dots
    if (limit.is_null() && !is_extended(resource)) continue;
    if (limit.is_null()) {
      throw ObjectProblem{false, path +
                                     ".limits: Required value: Limit must be set for non "
                                     "overcommitable resources"};
    }
    const double requested = amount_of(text.get_ref<const std::string&>());
    const double most = amount_of(limit.get_ref<const std::string&>());
    if (is_extended(resource) ? requested == most : requested <= most) continue;
    const std::string_view rule = is_extended(resource) ? "equal to" : "less than or equal to";
    invalid(path + ".requests", text.get<std::string>(),
            fmt::format("must be {} {} limit of {}", rule, resource, limit.get<std::string>()));
  }
}

void validate_container(const Json& container, const std::string& path) {
  const std::string name = text_at(container, "name");
  if (name.empty()) required(path + ".name");
  if (!is_dns_label(name) || name.size() > kLabelMax) {
    invalid(path + ".name", name,
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character");
  }
  if (text_at(container, "image").empty()) required(path + ".image");
  const Json& resources = member(container, "resources");
  validate_amounts(resources, path + ".resources", {"limits", "requests"});
  validate_requests(resources, path + ".resources");
}

void validate_secret(const Json& secret) {
  const auto is_key = [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; };
  for (const auto& [key, value] : member(secret, "data").items()) {
    if (!key.empty() && key.size() <= kNameMax && std::all_of(key.begin(), key.end(), is_key)) {
      continue;
    }
    invalid(fmt::format("data[{}]", cut_text(key, 100)), key,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'");
  }
}

// The spec without the fields that an update may change.
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

void validate(const ServedKind& kind, const Json& object) {
  validate_metadata(member(object, "metadata"));
  if (kind.kind == "Node") {
    validate_amounts(member(object, "status"), "status", {"capacity", "allocatable"});
  }
  if (kind.kind == "Secret") validate_secret(object);
  if (kind.kind != "Pod") return;
  if (member_at(object, "spec.containers").empty()) required("spec.containers");
  for (const std::string_view list : {"initContainers", "containers"}) {
    const Json& containers = member(member(object, "spec"), list);
    for (std::size_t i = 0; i < containers.size(); ++i) {
      validate_container(containers[i], fmt::format("spec.{}[{}]", list, i));
    }
  }
}

void validate_update(const ServedKind& kind, const Json& before, const Json& after) {
  if (kind.kind == "Secret" && text_at(before, "type") != text_at(after, "type")) {
    invalid("type", text_at(after, "type"), "field is immutable");
  }
  if (kind.kind != "Pod" || fixed_part(before) == fixed_part(after)) return;
  throw ObjectProblem{false,
                      "spec: Forbidden: pod updates may not change fields other than "
                      "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                      "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
                      "tolerations),`spec.terminationGracePeriodSeconds`"};
}

}  // namespace mgpu::kube
