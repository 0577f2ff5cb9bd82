#include "extender/inspect/json.h"

namespace mgpu::extender {

http::Response json_response(const Json& json) {
  return {.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Json indices(std::span<const CardIndex> cards) {
  Json out = Json::array();
  for (const CardIndex card : cards) out.push_back(card.value());
  return out;
}

std::string_view kind_name(ContainerKind kind) {
  switch (kind) {
    case ContainerKind::kInit:
      return "init";
    case ContainerKind::kSidecar:
      return "sidecar";
    case ContainerKind::kApp:
      return "app";
  }
  return "unknown";
}

}  // namespace mgpu::extender
