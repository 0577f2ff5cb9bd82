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

ExtenderProcess::ExtenderProcess(kube::MemoryApiServer& server, FaultQueue& faults,
                                 const Contract& contract, std::string identity, Role role,
                                 std::function<void()> on_lease_lost)
    : role_(role),
      link_(server, faults),
      settings_(settings_of(contract)),
      lease_(client_, {"kube-system", "mgpu-extender"}, std::move(identity),
             [on_lease_lost = std::move(on_lease_lost)](const std::string&) { on_lease_lost(); }),
      touch_(client_, settings_.contract, lease_.identity(), {}),
      binder_(client_, ledger_, settings_, {lease_, touch_, preconditions_},
              extender::kBindsInFlight, {}),
      requeue_(client_, ledger_, "default", {[](auto) {}, [](const auto&) {}}),
      start_sequence_(link_, client_, settings_.contract, {lease_, touch_, preconditions_},
                      {.on_done = [this] { pods_.start(); },
                       .on_problem = [](const std::string&) {},
                       .on_progress = [](std::size_t, std::size_t) {}}),
      nodes_("nodes", kube::all_nodes(), link_, probe_,
             extender::node_consumer(ledger_, settings_.contract, [](const std::string&) {}),
             {.on_change = [this] { on_change(); }, .on_listed = [] {}}),
      pods_("pods", kube::bound_pods(), link_, probe_,
            extender::pod_consumer(
                ledger_, settings_.contract,
                {.on_settled = [this](const PodUid& uid) { requeue_.on_settled(uid); },
                 .on_running = [](const PodRef&, const extender::NonGpuPod&, const GpuRequest&) {},
                 .on_drift = [](const extender::DriftChange&) {}}),
            {.on_change = [this] { on_change(); }, .on_listed = [] {}}),
      budgets_watch_("poddisruptionbudgets", kube::all_pod_disruption_budgets(), link_, probe_,
                     budgets_.consumer(), {.on_change = [] {}, .on_listed = [] {}}),
      nominations_("nominatedpods", kube::nominated_pods(), link_, probe_,
                   extender::nomination_consumer(ledger_),
                   {.on_change = [this] { on_change(); }, .on_listed = [] {}}) {
  extender::add_scheduler_routes(router_, "/mgpu",
                                 {.ledger = ledger_,
                                  .budgets = budgets_,
                                  .settings = settings_,
                                  .binder = binder_,
                                  .rejection_delay = rejection_delay_,
                                  .requeue = requeue_,
                                  .probe = probe_,
                                  .clock = link_.executor(),
                                  .ready = [this] { return ready(); },
                                  .refuse =
                                      [](const http::Respond& respond) {
                                        respond(http::error_response(503, "it does not decide"));
                                      }});
  nodes_.start();
  budgets_watch_.start();
  nominations_.start();
  if (role_ == Role::kObserver) {
    pods_.start();
    return;
  }
  binder_.start_reconciling();
  start_sequence_.start();
}

ExtenderProcess::~ExtenderProcess() {
  start_sequence_.stop();
}

void ExtenderProcess::call(const std::string& verb, std::string body,
                           std::function<void(int status, const std::string& body)> done) {
  http::Request request;
  request.method = "POST";
  request.path = "/mgpu/" + verb;
  request.body = std::move(body);
  link_.executor().post([this, request = std::move(request), done = std::move(done)] {
    router_.route(request,
                  [done](const http::Response& response) { done(response.status, response.body); });
  });
}

}  // namespace mgpu::simulation
