// What a container with a part of a card gets of the card's daemon: a folder with its socket, and
// its limits. Of a daemon of v2 all containers have one folder, and the limits are variables that
// their programs can change. Of a daemon of v3 (mps_v3.h) each has a folder of its own, with the
// socket of its namespace, which has the limits, too.
//
// Any thread, but one call of make_mps_share() or keep_mps_shares() at a time.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/allocation/record.h"
#include "plugin/cards/mps/mps_daemon.h"

namespace mgpu::plugin {

// The edits of a container with one card: the socket of its card's daemon, its percentage (unless
// it is 100), and its memory as the pinned limit of device 0. Empty for a container with several
// cards: whole cards need no limit, and a process can use one daemon only.
Edits mps_edits(const MpsOptions& options, const Record& record);

// Makes the namespace of a container that is about to start, and its folder. None with a daemon of
// v2. REQUIRES: no program of the container runs. Errors: one sentence why it must not start.
Result<void> make_mps_share(const MpsOptions& options, const Record& record);

// Makes the namespaces of containers that run again where the daemon of their card, or its server,
// was started again, and removes those of containers without a record. `records` is called after
// the folders were listed, so that a share that is made meanwhile stays. Begins nothing after
// `end`, and leaves the rest to the next call.
void keep_mps_shares(const MpsOptions& options, const CardUuid& card,
                     const std::function<std::vector<Record>()>& records,
                     std::chrono::steady_clock::time_point end);

}  // namespace mgpu::plugin
