// Records and known cards as the JSON files of the state folder. Pure; any thread.
//
//   <state>/allocations/<id>.json
//     {"version": 1, "allocation": id, "devices": [id*],
//      "owner": {"namespace", "pod", "uid", "container", "kind": "init" | "sidecar" | "app",
//                "position": n},                                    absent: not started yet
//      "cards": [{"index": n, "uuid": s, "core": n, "memoryMiB": n}]}
//   <state>/cards.json   the contract's node-cards (common/contract/contract.h)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

std::string record_json(const Record& record);
// An array of records, for GET /allocations.
std::string records_json(const std::vector<Record>& records);
// Errors: not JSON, another version, or a member that is absent or out of range.
Result<Record> parse_record(std::string_view json);

}  // namespace mgpu::plugin
