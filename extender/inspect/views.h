// The answers of inspect.h, each from values gathered before. Any thread.
#pragma once

#include "common/http/message.h"
#include "common/kube/objects.h"
#include "extender/inspect/page.h"
#include "extender/ledger/ledger.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

http::Response cluster_view(Ledger& ledger, const Page& page, Instant now);
http::Response node_view(const Ledger& ledger, const NodeName& name);
http::Response pod_view(const Ledger& ledger, const PodRef& pod);
http::Response explain_view(Ledger& ledger, const Settings& settings, const kube::Pod& pod,
                            const Page& page, Instant now);

http::Response policy_view(const Settings& settings, Instant now);

}  // namespace mgpu::extender
