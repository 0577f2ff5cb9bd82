// Times as people read them.
#pragma once

#include <optional>
#include <string>

#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

// The clock of this machine, in whole seconds.
Time clock_now();

// "7s", "5m", "3h", "2d": one unit, since tables are read at a glance. Empty without a time. Pure.
std::string age_text(const std::optional<Time>& created, Time now);

}  // namespace mgpu::kubectl
