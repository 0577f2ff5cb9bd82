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
using Clock = std::chrono::steady_clock;

// One request in progress.
struct Call {
  const char* verb;
  std::shared_ptr<const SchedulerVerbs> to;  // a bind may outlive the router
  Respond respond;
  Clock::time_point began = Clock::now();

  void answer(std::string body) const {
    to->probe.answered(verb, Clock::now() - began);
    respond({.body = std::move(body)});
  }
  void refuse(const Error& problem) const {
    to->probe.bad_request(verb);
    log_debug("bad request", {{"verb", verb}, {"problem", problem.message}});
    respond(http::error_response(400, problem.message));
  }
};

void answer_filter(const Call& call, const ExtenderArgs& args, const FilterReply& reply) {
  const SchedulerVerbs& to = *call.to;
  // It may fit. kube-scheduler tries it again after its backoff.
  if (reply.fitting.empty() && to.context.ledger.decisions().searches_ended())
    return to.refuse(call.respond);
  if (!reply.fitting.empty()) to.binder.remember(args.pod());
  to.preemption.on_filter(args.pod(), reply);
  const std::size_t refused = args.node_names().size() - reply.nodes_fitting;
  to.probe.filtered(reply.nodes_fitting, refused);
  log_debug("filter answered", {{"pod", to_string(args.pod().ref())},
                                {"fitting", std::to_string(reply.nodes_fitting)},
                                {"refused", std::to_string(refused)}});
  const bool is_evicting = !reply.failed.empty() && to.preemption.is_evicting(args.pod());
  call.answer(write_filter_reply(reply, args, is_evicting));
}

void filter(const Call& call, Request request) {
  auto parsed = ExtenderArgs::parse(std::move(request.body));
  if (!parsed) return call.refuse(parsed.error());
  const auto args = std::make_shared<const ExtenderArgs>(std::move(*parsed));
  const auto run = [call, args] {
    if (!call.to->ready()) return call.to->refuse(call.respond);
    call.to->requeue.filter(
        args->pod().uid(), args->node_names(),
        [call, args](Instant now) { return filter(*args, call.to->context, now); },
        [call, args](const FilterReply& reply) { answer_filter(call, *args, reply); });
  };
  if (call.to->binder.has_few_binds()) return run();
  call.to->binder.when_few_binds([call, run] { call.to->delayed.post(run); });
}

template <auto kVerb>
void prioritize(const Call& call, Request request) {
  auto args = ExtenderArgs::parse(std::move(request.body));
  if (!args) return call.refuse(args.error());
  const auto scores = kVerb(*args, call.to->context, call.to->clock.now());
  call.answer(write_prioritize_reply(scores, *args));
}

void preempt(const Call& call, Request request) {
  auto args = read_preemption_args(request.body);
  if (!args) return call.refuse(args.error());
  const SchedulerVerbs& to = *call.to;
  // kube-scheduler then evicts no pod, and tries the pod again after the requeue, or when those
  // that are evicted for it have ended.
  const PodUid uid = args->pod.uid();
  const bool waits = to.requeue.take_wait(uid) || to.preemption.is_evicting(args->pod);
  const auto nodes =
      waits ? std::vector<NodeVictims>() : preempt(*args, to.context, to.clock.now());
  if (!nodes.empty()) to.preemption.on_preempted(args->pod);
  log_info("preempt answered", {{"pod", to_string(args->pod.ref())},
                                {"nodes", std::to_string(nodes.size())},
                                {"proposed", std::to_string(args->nodes.size())}});
  call.answer(write_preemption_reply(nodes));
}

// "app=0,2 sidecar=1"; empty for a non-GPU pod.
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

void bind(const Call& call, Request request) {
  auto args = read_binding_args(request.body);
  if (!args) return call.refuse(args.error());
  call.to->binder.bind(*args, [call, args = *args](const std::string& error) {
    const std::string pod = to_string(args.pod);
    if (error.empty()) {
      log_info("pod bound",
               {{"pod", pod},
                {"node", args.node.str()},
                {"cards", cards_text(call.to->context.ledger.reader().claim(args.pod))}});
    } else {
      log_info("pod not bound", {{"pod", pod}, {"node", args.node.str()}, {"error", error}});
    }
    call.answer(write_binding_reply(error));
  });
}

}  // namespace

void add_scheduler_routes(http::Router& router, const std::string& prefix, SchedulerVerbs verbs) {
  const auto to = std::make_shared<const SchedulerVerbs>(std::move(verbs));
  const auto add = [&](const char* verb, void (*run)(const Call&, Request)) {
    router.add("POST", prefix + "/" + verb, [verb, run, to](Request request, Respond respond) {
      if (!to->ready()) return to->refuse(respond);
      run({verb, to, std::move(respond)}, std::move(request));
    });
  };
  add("filter", filter);
  add("prioritize", prioritize<extender::prioritize>);
  add("prioritize-non-gpu", prioritize<extender::prioritize_non_gpu>);
  add("preempt", preempt);
  add("bind", bind);
}

}  // namespace mgpu::extender
