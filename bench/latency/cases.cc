#include "bench/latency/cases.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "bench/latency/binds.h"
#include "bench/latency/client.h"
#include "bench/latency/limits.h"
#include "bench/latency/load.h"
#include "bench/latency/measure.h"
#include "bench/latency/requests.h"

namespace mgpu::bench {
namespace {

constexpr LoadRate kChanging{.events_per_s = 1'000, .binds_per_s = 100};
// With more nodes, a request with complete Node objects is longer than 20 MB.
constexpr std::size_t kFullFormNodesMax = 5'000;

struct Case {
  std::string verb;
  Form form = Form::kNames;
  PodKind pod = PodKind::kOneContainer;
  bool changing = false;
};

std::vector<Case> cases_of(const Plan& plan) {
  std::vector<Case> cases;
  for (const bool changing : {false, true}) {
    cases.push_back({"filter", Form::kSampled, PodKind::kOneContainer, changing});
  }
  for (const bool changing : {false, true}) {
    for (const PodKind pod : {PodKind::kOneContainer, PodKind::kTwoContainers}) {
      cases.push_back({"filter", Form::kNames, pod, changing});
      cases.push_back({"prioritize", Form::kNames, pod, changing});
    }
  }
  if (plan.nodes <= kFullFormNodesMax)
    cases.push_back({"filter", Form::kNodes, PodKind::kOneContainer, false});
  return cases;
}

std::size_t fitting(const std::string& reply) {
  const auto json = nlohmann::json::parse(reply);
  return json["NodeNames"].is_null() ? json["Nodes"]["items"].size() : json["NodeNames"].size();
}

// Checks that either both servers find a node or none does, since otherwise their times could not
// be compared; the extender answers with the best one only. Returns the length of the response.
Result<std::size_t> agreed_length(Servers& servers, const Case& one, Requests& requests) {
  auto extender = Client::connect(servers.extender_port());
  auto naive = Client::connect(servers.naive_port());
  if (!extender) return extender.error();
  if (!naive) return naive.error();
  const std::string body(requests.next());
  const auto extender_reply = extender->post("/mgpu/" + one.verb, body);
  const auto naive_reply = naive->post("/naive/" + one.verb, body);
  if (!extender_reply) return extender_reply.error();
  if (!naive_reply) return naive_reply.error();
  if (one.verb == "filter" &&
      fitting(*extender_reply) != std::min<std::size_t>(fitting(*naive_reply), 1))
    return error("the extender found " + std::to_string(fitting(*extender_reply)) +
                 " nodes, the naive extender " + std::to_string(fitting(*naive_reply)));
  return extender_reply->size();
}

std::string form_of(const Case& one) {
  const bool two = one.pod == PodKind::kTwoContainers;
  return std::string(name(one.form)) + (two ? ", 2 containers" : "");
}

// Number of requests for one case.
std::size_t count_of(const Plan& plan, const Case& one, std::size_t one_in) {
  if (one.form == Form::kNodes) one_in *= limits::kFullFormOneIn;
  return std::max(plan.requests / one_in, limits::kRequestsLeast);
}

Row row_of(const Plan& plan, const Case& one, const Times& times, const Times& echo) {
  return {.name = times.name,
          .nodes = plan.nodes,
          .verb = one.verb,
          .form = form_of(one),
          .load = one.changing ? "changing" : "steady",
          .threads = plan.threads,
          .p50_us = times.percentile(0.5),
          .p99_us = times.percentile(0.99),
          .p999_us = times.percentile(0.999),
          .requests = times.us.size(),
          .bytes_in = times.bytes_in,
          .bytes_out = times.bytes_out,
          .ratio_to_echo = times.percentile(0.5) / echo.percentile(0.5)};
}

Result<void> run_case(const Plan& plan, const Case& one, Servers& servers,
                      const std::function<void(const Row&)>& on_row) {
  Requests requests(plan.nodes, one.form, one.pod);
  const auto length = agreed_length(servers, one, requests);
  if (!length) return length.error();
  servers.echo_bytes(*length);
  std::optional<Load> load;
  if (one.changing) load.emplace(servers, kChanging);
  const auto times = measure({{"extender", servers.extender_port(), "/mgpu/" + one.verb},
                              {"echo", servers.echo_port(), "/echo"}},
                             requests, count_of(plan, one, 1));
  if (!times) return times.error();
  const auto naive = measure({{"naive", servers.naive_port(), "/naive/" + one.verb}}, requests,
                             count_of(plan, one, limits::kNaiveOneIn));
  if (!naive) return naive.error();
  if (load && load->failures() > 0)
    return error(std::to_string(load->failures()) + " binds of the background load failed");
  for (const Times& of : {(*times)[0], (*times)[1], (*naive)[0]})
    on_row(row_of(plan, one, of, (*times)[1]));
  return {};
}

}  // namespace

Result<void> run_plan(const Plan& plan, const std::function<void(const Row&)>& on_row) {
  auto servers = Servers::start({plan.nodes, plan.nodes * 8}, plan.threads, plan.policy);
  if (!servers) return servers.error();
  for (const Case& one : cases_of(plan))
    if (auto ran = run_case(plan, one, **servers, on_row); !ran) return ran;
  return run_binds(plan, **servers, on_row);
}

}  // namespace mgpu::bench
