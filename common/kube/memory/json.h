// JSON as the in-memory API server needs it: reading of texts from outside, answers, and the
// Status objects of refusals. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/kube/memory/limits.h"
#include "common/kube/memory/store.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

using Json = nlohmann::json;

// None: not JSON, or nested deeper than kJsonDepthMax.
std::optional<Json> read_json(std::string_view text);
// More than `levels` of objects and arrays.
bool deeper_than(const Json& json, std::size_t levels);

// The member of an object; null where it is absent or `object` is none.
const Json& member(const Json& object, std::string_view name);
// The same along a path such as "spec.nodeName".
const Json& member_at(const Json& object, std::string_view path);
// The text of a string member; empty where it is anything else.
std::string text_at(const Json& object, std::string_view path);

// Why a request is refused.
struct Refusal {
  int code = 400;
  std::string reason = {};          // "Conflict"; empty where Kubernetes gives none
  std::string message = {};         // in Kubernetes' words where callers read them
  std::string name = {};            // details.name
  std::string kind = {};            // details.kind: "pods", "pods/binding"
  std::string continue_token = {};  // metadata.continue of an expired list
};

std::string status_text(const Refusal& refusal);
Response refuse(const Refusal& refusal);
Response answer(int code, std::string body);

// An object's JSON with its kind and apiVersion, as answers and watch lines carry it.
std::string full_text(const ServedKind& kind, const StoredObject& object);

Refusal not_found(const ServedKind& kind, std::string_view name);
Refusal bad_request(std::string message);
Refusal conflict(const ServedKind& kind, std::string_view name, std::string_view why);

}  // namespace mgpu::kube
