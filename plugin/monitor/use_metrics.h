// The account of use as metrics: counters and the peak of each container on each card, with the
// labels of monitor/metrics.h, and the owner of each container.
//
// The counters count since this process began. An account that a crash has set back to its last
// save would otherwise lower them by a few minutes, which Prometheus takes for a reset to 0, so
// that increase() would add all that was counted before once more.
//
// A container that has ended keeps its series for a while, so that the last value is read
// (UseAccount::recent_shares). Where several pods have had one name, as those of a StatefulSet do,
// the series are those of the last one, and start at 0 again.
#pragma once

#include <vector>

#include "common/base/metrics.h"
#include "plugin/monitor/use_account.h"

namespace mgpu::plugin {

// Replaces all series by those of `shares`. Unknown values have no series.
void update_use_metrics(Metrics& metrics, const std::vector<const ShareUse*>& shares);

}  // namespace mgpu::plugin
