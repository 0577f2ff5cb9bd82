// The flags --prometheus-url, --prometheus-ca and --prometheus-token-file.
#pragma once

#include <optional>

#include "common/base/options.h"
#include "common/base/result.h"
#include "common/kube/config.h"
#include "extender/prometheus/access.h"

namespace mgpu::extender {

// `access` holds the defaults, and outlives the use of `options`.
void add_prometheus_flags(Options& options, promql::Access& access);

// None where the URL is empty. Errors: another flag without the URL, an invalid value; the sentence
// names the flag.
Result<std::optional<kube::Config>> prometheus_config(const promql::Access& access);

}  // namespace mgpu::extender
