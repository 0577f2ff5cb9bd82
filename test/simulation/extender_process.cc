#include "test/simulation/extender_process.h"

#include <utility>

#include "common/kube/request.h"
#include "extender/ledger/consumers.h"
#include "extender/scheduler_routes.h"

namespace mgpu::simulation {
namespace {

extender::Settings settings_of(const Contract& contract) {
  extender::Settings settings;
  settings.contract = contract;
  settings.policy = *extender::find_policy("binpack");
  settings.window = std::make_shared<extender::WorkloadWindow>();
  return settings;
}

}  // namespace

ExtenderProcess::ExtenderProcess(kube::MemoryApiServer& server, Fates& fates,
                                 const Contract& contract)
    : link_(server, fates),
      settings_(settings_of(contract)),
      binder_(client_, ledger_, settings_, extender::kBindsInFlight, {}),
      requeue_(client_, ledger_, "default", {[](auto) {}, [](const auto&) {}}),
      nodes_("nodes", kube::all_nodes(), link_, probe_,
             extender::node_consumer(ledger_, settings_.contract, [](const std::string&) {}),
             {.on_change = [this] { on_change(); }, .on_listed = [] {}}),
      pods_("pods", kube::bound_pods(), link_, probe_,
            extender::pod_consumer(
                ledger_, settings_.contract,
                {.on_settled = [this](const PodUid& uid) { requeue_.on_settled(uid); },
                 .on_bound = [](const extender::NonGpuPod&, const GpuRequest&) {}}),
            {.on_change = [this] { on_change(); }, .on_listed = [] {}}),
      budgets_watch_("poddisruptionbudgets", kube::all_pod_disruption_budgets(), link_, probe_,
                     budgets_.consumer(), {.on_change = [] {}, .on_listed = [] {}}) {
  extender::add_scheduler_routes(router_, "/mgpu",
                                 {.ledger = ledger_,
                                  .budgets = budgets_,
                                  .settings = settings_,
                                  .binder = binder_,
                                  .rejection_delay = rejection_delay_,
                                  .requeue = requeue_,
                                  .probe = probe_,
                                  .clock = link_.executor(),
                                  .ready = [this] { return ready(); }});
  nodes_.start();
  pods_.start();
  budgets_watch_.start();
  binder_.start_reconciling();
}

void ExtenderProcess::call(const std::string& verb, std::string body,
                           std::function<void(int status, const std::string& body)> done) {
  http::Request request;
  request.method = "POST";
  request.path = "/mgpu/" + verb;
  request.body = std::move(body);
  router_.route(std::move(request), [done = std::move(done)](const http::Response& response) {
    done(response.status, response.body);
  });
}

}  // namespace mgpu::simulation
