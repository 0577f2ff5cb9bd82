// JSON as the in-memory API server needs it: texts from clients are read, answers and the Status
// objects of refusals are written. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "bench/apiserver/limits.h"
#include "bench/apiserver/store.h"
#include "common/kube/transport.h"

namespace mgpu::kube {

using Json = nlohmann::json;

// Discarded (nlohmann's is_discarded) if the text is not JSON or is nested deeper than
// kJsonDepthMax.
Json read_json(std::string_view text);

// The member of an object; null if it is absent or `object` is not an object.
const Json& member(const Json& object, std::string_view name);
// The same along a path such as "spec.nodeName".
const Json& member_at(const Json& object, std::string_view path);
// The text of a string member; empty for any other value.
std::string text_at(const Json& object, std::string_view path);

// Why a request is refused. The functions of verbs.h throw it; serve() turns it into the answer.
struct Refusal {
  int code = 400;
  std::string reason = {};          // "Conflict"; empty if Kubernetes gives none
  std::string message = {};         // as in Kubernetes if clients read it
  std::string name = {};            // details.name
  std::string kind = {};            // details.kind: "pods", "pods/binding"
  std::string continue_token = {};  // metadata.continue of an expired list
};

// A metav1.Status.
std::string status_text(const Refusal& refusal);
Response answer(int code, std::string body);

// An object's JSON with its kind and apiVersion, as in answers and watch lines.
std::string full_text(const ServedKind& kind, const StoredObject& object);

Refusal not_found(const ServedKind& kind, std::string_view name);
Refusal bad_request(std::string message);
Refusal conflict(const ServedKind& kind, std::string_view name, std::string_view why);

}  // namespace mgpu::kube
