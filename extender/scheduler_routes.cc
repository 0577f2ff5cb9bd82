#include "extender/scheduler_routes.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/contract/contract.h"

namespace mgpu::extender {

namespace {

using http::Request;
using http::Respond;
using http::Response;
using Clock = std::chrono::steady_clock;

// One call under way.
class Call {
 public:
  Call(const char* verb, std::shared_ptr<const SchedulerRoutes> routes, Respond respond)
      : verb_(verb),
        routes_(std::move(routes)),
        respond_(std::move(respond)),
        began_(Clock::now()) {}

  const SchedulerRoutes& routes() const { return *routes_; }

  void answer(std::string body) const {
    routes_->probe.answered(verb_, Clock::now() - began_);
    respond_({.body = std::move(body)});
  }
  void refuse(const Error& problem) const {
    routes_->probe.bad_request(verb_);
    log_debug("bad request", {{"verb", verb_}, {"problem", problem.message}});
    respond_(http::error_response(400, problem.message));
  }

 private:
  const char* verb_;
  std::shared_ptr<const SchedulerRoutes> routes_;  // a bind may outlive the router
  Respond respond_;
  Clock::time_point began_;
};

void answer_filter(const Call& call, const ExtenderArgs& args, const FilterReply& reply) {
  const SchedulerRoutes& to = call.routes();
  if (!reply.fitting.empty()) to.binder.remember(args.pod());
  const std::size_t refused = reply.failed.size() + reply.failed_and_unresolvable.size();
  to.probe.filtered(reply.fitting.size(), refused);
  log_debug("filter", {{"pod", to_string(args.pod().ref())},
                       {"fitting", std::to_string(reply.fitting.size())},
                       {"refused", std::to_string(refused)}});
  call.answer(write_filter_reply(reply, &args));
}

void filter(const Call& call, Request request) {
  auto parsed = ExtenderArgs::parse(std::move(request.body));
  if (!parsed) return call.refuse(parsed.error());
  const auto args = std::make_shared<const ExtenderArgs>(std::move(*parsed));
  call.routes().requeue.asked(args->pod().uid());
  const auto decide = [call, args](bool last) {
    const SchedulerRoutes& to = call.routes();
    const std::uint64_t releases = to.ledger.releases();
    const auto reply = filter(*args, to.ledger, to.settings, to.clock.now());
    if (reply.may_change && !last) return false;
    if (reply.may_change) to.requeue.refused(args->pod().uid(), releases);
    answer_filter(call, *args, reply);
    return true;
  };
  RejectionDelay& held = call.routes().held;
  const std::uint64_t before = held.releases();
  if (!decide(false) && !held.hold(args->pod().uid(), before, decide)) decide(true);
}

template <auto kVerb>
void prioritize(const Call& call, Request request) {
  auto args = ExtenderArgs::parse(std::move(request.body));
  if (!args) return call.refuse(args.error());
  const SchedulerRoutes& to = call.routes();
  const auto scores = kVerb(*args, to.ledger, to.settings, to.clock.now());
  call.answer(write_prioritize_reply(scores, &*args));
}

void preempt(const Call& call, Request request) {
  auto args = read_preemption_args(request.body);
  if (!args) return call.refuse(args.error());
  const SchedulerRoutes& to = call.routes();
  const auto nodes = preempt(*args, to.ledger, to.budgets, to.settings, to.clock.now());
  log_info("preempt", {{"pod", to_string(args->pod.ref())},
                       {"nodes", std::to_string(nodes.size())},
                       {"proposed", std::to_string(args->nodes.size())}});
  call.answer(write_preemption_reply(nodes));
}

// "app=0,2 sidecar=1"; empty where the pod holds no cards.
std::string cards_text(const std::optional<ClaimView>& view) {
  std::string out;
  if (!view || !view->claim.placement) return out;
  const auto& containers = view->claim.request.containers;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (i > 0) out += ' ';
    out += containers[i].name + "=" + format_card_indices(view->claim.placement->cards_of[i]);
  }
  return out;
}

void log_bind(const SchedulerRoutes& to, const BindingArgs& args, const std::string& error) {
  if (error.empty()) {
    return log_info("pod bound", {{"pod", to_string(args.pod)},
                                  {"node", args.node.str()},
                                  {"cards", cards_text(to.ledger.claim(args.pod))}});
  }
  log_info("pod not bound",
           {{"pod", to_string(args.pod)}, {"node", args.node.str()}, {"error", error}});
}

void bind(const Call& call, Request request) {
  auto args = read_binding_args(request.body);
  if (!args) return call.refuse(args.error());
  call.routes().binder.bind(*args, [call, args = *args](const std::string& error) {
    log_bind(call.routes(), args, error);
    call.answer(write_binding_reply(error));
  });
}

}  // namespace

void SchedulerRoutes::add_to(http::Router& router, const std::string& prefix) const {
  const auto shared = std::make_shared<const SchedulerRoutes>(*this);
  const auto add = [&](const char* verb, void (*run)(const Call&, Request)) {
    router.add("POST", prefix + "/" + verb,
               [verb, run, routes = shared](Request request, Respond respond) {
                 if (!routes->ready()) {
                   return respond(http::error_response(503, "the cluster is not known yet"));
                 }
                 run(Call(verb, routes, std::move(respond)), std::move(request));
               });
  };
  add("filter", filter);
  add("prioritize", prioritize<extender::prioritize>);
  add("prioritize-non-gpu", prioritize<extender::prioritize_non_gpu>);
  add("preempt", preempt);
  add("bind", bind);
}

}  // namespace mgpu::extender
