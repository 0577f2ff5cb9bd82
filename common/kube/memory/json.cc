#include "common/kube/memory/json.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/kube/memory/limits.h"

namespace mgpu::kube {
namespace {

const Json kNull;

std::string in_quotes_raw(std::string_view name) {
  return "\"" + std::string(cut_text(name, kQuotedValueMax)) + "\"";
}

Json details(const Refusal& refusal) {
  Json details = Json::object();
  if (!refusal.name.empty()) details["name"] = refusal.name;
  if (!refusal.kind.empty()) details["kind"] = refusal.kind;
  return details;
}

// Before parsing: what is too deep is never built.
bool too_deep(std::string_view json) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if ((c == '{' || c == '[') && ++depth > kJsonDepthMax) return true;
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return false;
}

}  // namespace

bool deeper_than(const Json& json, std::size_t levels) {
  if (!json.is_structured()) return false;
  return levels == 0 || std::any_of(json.begin(), json.end(), [&](const Json& child) {
           return deeper_than(child, levels - 1);
         });
}

std::optional<Json> read_json(std::string_view text) {
  if (too_deep(text)) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

const Json& member(const Json& object, std::string_view name) {
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const Json& member_at(const Json& object, std::string_view path) {
  const Json* at = &object;
  while (true) {
    const std::size_t dot = path.find('.');
    at = &member(*at, path.substr(0, dot));
    if (dot == std::string_view::npos) return *at;
    path.remove_prefix(dot + 1);
  }
}

std::string text_at(const Json& object, std::string_view path) {
  const Json& value = member_at(object, path);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string status_text(const Refusal& refusal) {
  Json status = {{"kind", "Status"},    {"apiVersion", "v1"},         {"metadata", Json::object()},
                 {"status", "Failure"}, {"message", refusal.message}, {"code", refusal.code}};
  if (!refusal.reason.empty()) status["reason"] = refusal.reason;
  if (!refusal.reason.empty()) status["details"] = details(refusal);
  if (!refusal.continue_token.empty()) status["metadata"]["continue"] = refusal.continue_token;
  // Names and messages may quote bytes of a request that are not UTF-8.
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Response answer(int code, std::string body) {
  Response response;
  response.status = code;
  response.body = std::move(body);
  return response;
}

Response refuse(const Refusal& refusal) {
  return answer(refusal.code, status_text(refusal));
}

std::string full_text(const ServedKind& kind, const StoredObject& object) {
  std::string text = R"({"kind":")";
  text += kind.kind;
  text += R"(","apiVersion":")";
  text += kind.api_version;
  text += R"(",)";
  return text.append(object.text, 1);
}

Refusal not_found(const ServedKind& kind, std::string_view name) {
  return {.code = 404,
          .reason = "NotFound",
          .message = std::string(kind.plural) + " " + in_quotes_raw(name) + " not found",
          .name = std::string(name),
          .kind = std::string(kind.plural)};
}

Refusal conflict(const ServedKind& kind, std::string_view name, std::string_view why) {
  return {.code = 409,
          .reason = "Conflict",
          .message = "Operation cannot be fulfilled on " + std::string(kind.plural) + " " +
                     in_quotes_raw(name) + ": " + std::string(why),
          .name = std::string(name),
          .kind = std::string(kind.plural)};
}

Refusal bad_request(std::string message) {
  return {.code = 400, .reason = "BadRequest", .message = std::move(message)};
}

}  // namespace mgpu::kube
