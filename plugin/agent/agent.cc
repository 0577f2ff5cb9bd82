#include "plugin/agent/agent.h"

#include <utility>

#include "plugin/agent/agent_state.h"

namespace mgpu::plugin {

Agent::Agent(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Agent>> Agent::start(AgentSettings settings,
                                            std::unique_ptr<CardSource> cards,
                                            kube::Transport& transport,
                                            std::function<void(const std::string&)> on_fatal) {
  auto state = std::make_unique<State>(std::move(settings), std::move(cards), transport,
                                       std::move(on_fatal));
  if (auto started = state->start(); !started) return started.error();
  return std::unique_ptr<Agent>(new Agent(std::move(state)));
}

Agent::~Agent() {
  state_->end();
}

std::uint16_t Agent::port() const {
  return state_->port();
}

bool Agent::ready() const {
  return state_->readiness().waiting_for.empty();
}

}  // namespace mgpu::plugin
