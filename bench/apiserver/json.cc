#include "bench/apiserver/json.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"

namespace mgpu::kube {

Json read_json(std::string_view text) {
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t event, const Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    too_deep = too_deep || (opens && static_cast<std::size_t>(depth) >= kJsonDepthMax);
    return !too_deep;
  };
  Json json = Json::parse(text, keep, false);
  return too_deep ? Json(Json::value_t::discarded) : json;
}

const Json& member(const Json& object, std::string_view name) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

const Json& member_at(const Json& object, std::string_view path) {
  const std::size_t dot = path.find('.');
  const Json& found = member(object, path.substr(0, dot));
  return dot == std::string_view::npos ? found : member_at(found, path.substr(dot + 1));
}

std::string text_at(const Json& object, std::string_view path) {
  const Json& value = member_at(object, path);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::string status_text(const Refusal& refusal) {
  Json status = {{"kind", "Status"},    {"apiVersion", "v1"},         {"metadata", Json::object()},
                 {"status", "Failure"}, {"message", refusal.message}, {"code", refusal.code}};
  if (!refusal.reason.empty()) {
    status["reason"] = refusal.reason;
    status["details"] = Json::object();
    if (!refusal.name.empty()) status["details"]["name"] = refusal.name;
    if (!refusal.kind.empty()) status["details"]["kind"] = refusal.kind;
  }
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

std::string full_text(const ServedKind& kind, const StoredObject& object) {
  return fmt::format(R"({{"kind":"{}","apiVersion":"{}",{})", kind.kind, kind.api_version(),
                     std::string_view(object.text).substr(1));
}

Refusal not_found(const ServedKind& kind, std::string_view name) {
  return {
      .code = 404,
      .reason = "NotFound",
      .message = fmt::format("{} \"{}\" not found", kind.plural, cut_text(name, kQuotedValueMax)),
      .name = std::string(name),
      .kind = std::string(kind.plural)};
}

Refusal conflict(const ServedKind& kind, std::string_view name, std::string_view why) {
  return {.code = 409,
          .reason = "Conflict",
          .message = fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", kind.plural,
                                 cut_text(name, kQuotedValueMax), why),
          .name = std::string(name),
          .kind = std::string(kind.plural)};
}

Refusal bad_request(std::string message) {
  return {.code = 400, .reason = "BadRequest", .message = std::move(message)};
}

}  // namespace mgpu::kube
