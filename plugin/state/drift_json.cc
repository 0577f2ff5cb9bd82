#include "plugin/state/drift_json.h"

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/base/utc_text.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

using DriftJson = nlohmann::ordered_json;

void add_name(DriftJson& item, const char* member, std::string_view name) {
  if (!name.empty()) item[member] = cut_text(name, kDriftNameMax);
}

}  // namespace

std::string drifts_json(const NodeName& node, const DriftList& drifts, Instant now,
                        std::chrono::sys_seconds wall_time) {
  DriftJson items = DriftJson::array();
  for (const Drift& drift : drifts.found) {
    DriftJson item = {{"kind", to_string(drift.kind)}};
    add_name(item, "namespace", drift.pod.name_space);
    add_name(item, "pod", drift.pod.name);
    add_name(item, "container", drift.container);
    if (drift.index) item["card"] = drift.index->value();
    add_name(item, "uuid", drift.card.str());
    item["since"] =
        utc_text(wall_time - std::chrono::duration_cast<std::chrono::seconds>(now - drift.since));
    item["message"] = drift.message;
    items.push_back(std::move(item));
  }
  const DriftJson json = {
      {"node", node.str()}, {"items", std::move(items)}, {"leftOut", drifts.left_out}};
  return json.dump(-1, ' ', false, DriftJson::error_handler_t::replace) + "\n";
}

}  // namespace mgpu::plugin
