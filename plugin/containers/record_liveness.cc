#include "plugin/containers/record_liveness.h"

namespace mgpu::plugin {

namespace {

// A pod of the same name may have come since, as a StatefulSet's do: then kubelet's word is of that
// one, and the uid at the API server tells them apart.
bool at_kubelet(const Owner& owner, const RecordLiveness& presence) {
  const bool remade =
      presence.remade_at_api_server && presence.remade_at_api_server(owner.pod, owner.uid);
  return presence.at_kubelet.contains(owner.pod) && !remade;
}

bool has_ended(const Record& record, const RecordLiveness& presence) {
  return record.bound() && presence.kubelet_answered &&
         presence.gone_at_api_server(record.owner->uid) && !at_kubelet(*record.owner, presence);
}

std::vector<Record> chosen(const std::vector<Record>& records, const RecordLiveness& presence,
                           bool wanted) {
  std::vector<Record> out;
  for (const Record& record : records) {
    if (has_ended(record, presence) == wanted) out.push_back(record);
  }
  return out;
}

}  // namespace

std::vector<Record> ended(const std::vector<Record>& records, const RecordLiveness& presence) {
  return chosen(records, presence, true);
}

std::vector<Record> counting(const std::vector<Record>& records, const RecordLiveness& presence) {
  return chosen(records, presence, false);
}

}  // namespace mgpu::plugin
