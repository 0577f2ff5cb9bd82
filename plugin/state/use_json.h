// The account of use as the answer to GET /use, and as a file of the state folder. Pure; any
// thread.
//
//   GET /use
//     {"node": s, "since": time, "now": time, "leftOut": n,
//      "items": [{"namespace", "pod", "container", "ownerKind", "owner", "card": n, "uuid": s,
//                 "corePercent": n, "memoryMiB": n, "running": b, "from": time, "to": time,
//                 "cardSecondsGranted": x, "cardSecondsUsed": x, "secondsMeasured": x,
//                 "memoryMiBPeak": n, "corePercentP95": n, "samples": n}]}
//     A member that is not known is absent: the owner, and what the driver did not measure.
//
//   <state>/use.json
//     {"version": 1, "times": {"since": n, "saved": n}, "leftOut": {"shares": n},
//      "shares": [{"namespace", "pod", "uid", "container", "ownerKind", "owner", "uuid": s,
//                  "running": b, "numbers": {"index", "core", "memoryMiB", "from", "to",
//                  "grantedMs", "usedMs", "measuredMs", "peakMiB", "samples"},
//                  "histogramMs": {"<percent>": n}}]}
//     Times are seconds since 1970, and durations milliseconds. Numbers that are 0 may be absent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/monitor/use_account.h"

namespace mgpu::plugin {

std::string use_json(const NodeName& node, const UseAccount& account, std::chrono::sys_seconds now);

// The shares after which the text would have more than `bytes_max` bytes are left out and counted.
std::string saved_use_json(const SavedUse& saved, std::size_t bytes_max = kUseFileBytesMax);
// Errors: not JSON, another version, more than kSharesMax shares, or a member that is absent or out
// of range.
Result<SavedUse> parse_saved_use(std::string_view json);

}  // namespace mgpu::plugin
