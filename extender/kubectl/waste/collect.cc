#include "extender/kubectl/waste/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "common/base/asio_executor.h"
#include "common/kube/curl/curl_transport.h"
#include "extender/kubectl/cluster.h"
#include "extender/kubectl/waste/limits.h"
#include "extender/prometheus/query.h"

namespace mgpu::kubectl {
namespace {

// Queries that Prometheus computes at once. By default it accepts 20 from all its clients.
constexpr std::size_t kQueriesAtOnce = 4;

class PrometheusClient {
 public:
  static Result<std::unique_ptr<PrometheusClient>> create(const promql::Access& access) {
    auto config = promql::config_of(access);
    if (!config) return config.error();
    std::unique_ptr<PrometheusClient> client(new PrometheusClient());
    auto transport = kube::CurlTransport::create(std::move(*config), client->executor_);
    if (!transport) return error("--prometheus-url: " + transport.error().message);
    client->transport_ = std::move(*transport);
    return client;
  }
  // The transport is destroyed after it.
  ~PrometheusClient() { executor_.stop(); }
  PrometheusClient(const PrometheusClient&) = delete;
  PrometheusClient& operator=(const PrometheusClient&) = delete;

  // The answers in the order of the queries. The first error is the error of all.
  Result<std::vector<promql::Answer>> vectors(const std::vector<UseQuery>& queries) {
    std::vector<kube::Request> requests;
    for (const UseQuery& query : queries) {
      requests.push_back(promql::instant_query(query.expression, query.at, kQueryTimeout));
    }
    const Duration timeout = requests.empty() ? Duration(0) : requests.front().timeout;
    std::vector<promql::Answer> answers;
    for (const kube::Response& response : Api(*transport_, timeout).call_all(std::move(requests))) {
      auto answer = promql::vector_in(response);
      if (!answer) return answer.error();
      for (const std::string& warning : answer->warnings) warnings_.insert(warning);
      answers.push_back(std::move(*answer));
    }
    return answers;
  }
  Result<promql::Answer> vector(const std::string& expression, Time at) {
    auto answers = vectors({{expression, at, {}}});
    if (!answers) return answers.error();
    return std::move(answers->front());
  }
  const std::set<std::string>& warnings() const { return warnings_; }

 private:
  PrometheusClient() = default;

  AsioExecutor executor_;
  std::unique_ptr<kube::Transport> transport_;
  std::set<std::string> warnings_;
};

Result<void> read_sums(PrometheusClient& client, const UseScope& scope, SeriesOfShares& shares) {
  const auto queries = use_queries(scope);
  for (std::size_t begin = 0; begin < queries.size(); begin += kQueriesAtOnce) {
    const std::size_t end = std::min(queries.size(), begin + kQueriesAtOnce);
    const std::vector<UseQuery> some(queries.begin() + static_cast<std::ptrdiff_t>(begin),
                                     queries.begin() + static_cast<std::ptrdiff_t>(end));
    const auto answers = client.vectors(some);
    if (!answers) return answers.error();
    for (std::size_t i = 0; i < some.size(); ++i) add_use((*answers)[i], some[i], shares);
  }
  return {};
}

Result<void> read_percentiles(PrometheusClient& client, const UseScope& scope,
                              SeriesOfShares& shares) {
  UseQuery query = percentile_query(scope, kStepsOfPercentile);
  auto answer = client.vector(query.expression, query.at);
  if (!answer) {
    query = percentile_query(scope, kStepsOfPercentileLeast);
    answer = client.vector(query.expression, query.at);
  }
  if (!answer) return answer.error();
  add_use(*answer, query, shares);
  return {};
}

using Owners = std::map<PodRef, std::pair<std::string, std::string>>;

Result<Owners> read_owners(PrometheusClient& client, const UseScope& scope) {
  const auto answer = client.vector(owners_query(scope), scope.until);
  if (!answer) return answer.error();
  return owners_in(*answer);
}

// Adds a sentence if the matchers leave out all shares.
Result<void> check_matched(PrometheusClient& client, const UseScope& scope, UseFacts& facts) {
  if (!facts.shares.empty() || scope.matcher.empty()) return {};
  const auto unmatched = client.vector(unmatched_query(scope), scope.until);
  if (!unmatched) return unmatched.error();
  if (unmatched->series.empty()) return {};
  facts.problems.push_back(
      fmt::format("Prometheus has shares of cards, but none of a series that matches {}; "
                  "--prometheus-matcher names the scrape jobs of the device plugins",
                  scope.matcher));
  return {};
}

}  // namespace

Result<UseFacts> collect_from_prometheus(const promql::Access& access, const UseScope& scope) {
  const auto client = PrometheusClient::create(access);
  if (!client) return client.error();
  SeriesOfShares series;
  if (auto read = read_sums(**client, scope, series); !read) return read.error();
  if (auto read = read_percentiles(**client, scope, series); !read) return read.error();
  const auto owners = read_owners(**client, scope);
  if (!owners) return owners.error();
  UseFacts facts;
  facts.shares = shares_of(series, scope);
  for (MeasuredShare& share : facts.shares) {
    const auto owner = owners->find(share.pod);
    if (owner != owners->end()) std::tie(share.owner_kind, share.owner) = owner->second;
  }
  if (auto checked = check_matched(**client, scope, facts); !checked) return checked.error();
  facts.since = scope.from;
  facts.until = scope.until;
  facts.step = scope.step;
  for (const std::string& warning : (*client)->warnings()) {
    facts.problems.push_back("Prometheus warns: " + warning);
  }
  return facts;
}

}  // namespace mgpu::kubectl
