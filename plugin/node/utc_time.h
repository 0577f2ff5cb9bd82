// The time on Kubernetes objects: common/base/utc_text.h.
#pragma once

#include "common/base/utc_text.h"
