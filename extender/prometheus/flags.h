// The flags --prometheus-url, --prometheus-ca, --prometheus-token-file and --prometheus-tenant.
#pragma once

#include <optional>
#include <string>

#include "common/base/options.h"
#include "common/base/result.h"
#include "common/kube/config/config.h"
#include "extender/prometheus/access.h"

namespace mgpu::promql {

// `access` holds the defaults, and outlives the use of `options`. `url_help` describes what the
// program reads there, and what it does without a URL.
void add_prometheus_flags(Options& options, Access& access, const std::string& url_help);

// None if the URL is empty. Errors: another flag without the URL, an invalid value; the sentence
// names the flag.
Result<std::optional<kube::Config>> prometheus_config(const Access& access);

}  // namespace mgpu::promql
