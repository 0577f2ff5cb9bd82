#include "extender/kubectl/doctor/collect.h"

#include "extender/kubectl/doctor/read_facts.h"

namespace mgpu::kubectl {
namespace {

void collect_server(Api& api, const std::function<Time()>& clock, Facts& facts) {
  kube::Request request;
  request.target = "/version";
  const Time before = clock();
  const kube::Response response = api.call(std::move(request));
  const Time after = clock();
  facts.server = read_fact(body_of(response, "get the version of the API server"),
                           "version of the API server", read_server_version);
  facts.now = after;
  if (!response.date) return;
  // The header was written between the two.
  facts.clock_difference = *response.date - (before + (after - before) / 2);
  facts.now = *response.date;
}

}  // namespace

void collect_facts(Api& api, const std::function<Time()>& clock, Facts& facts) {
  collect_server(api, clock, facts);
}

}  // namespace mgpu::kubectl
