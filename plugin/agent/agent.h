// The device plugin as one object: cards, kubelet, node object, monitoring and the HTTP server,
// over any Transport. main.cc runs it over libcurl, the tests over the in-memory API server.
//
//   Starting (HTTP listens, /readyz 503)
//     --the runtime has answered, cards and records are complete--> Serving (kubelet may register
//     us)
//     --kubelet reads our devices--> Ready --end--> Ended; running containers are not touched
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/contract/contract.h"
#include "common/http/server.h"
#include "common/kube/transport.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {

enum class Injection { kAuto, kCdi, kDeviceNodes };
enum class MemoryResource { kNodeStatus, kDevicePlugin };
enum class Enforcement { kNone, kEvict };

struct AgentSettings {
  Contract contract;
  NodeName node;
  http::ServerOptions http;
  std::string plugin_folder;  // of kubelet.sock
  std::string pod_resources_socket;
  std::string runtime_socket;
  std::string state_folder;
  std::string run_folder;
  std::string cdi_folder;
  std::string proc_folder = "/proc";
  std::chrono::milliseconds settle{0};
  Injection injection = Injection::kAuto;
  MemoryResource memory_resource = MemoryResource::kNodeStatus;
  bool mps = false;
  std::string mps_control;
  Enforcement enforcement = Enforcement::kNone;
};

class Agent {
 public:
  // Listens when it returns, and goes on by itself. `transport` outlives the agent. `on_fatal` is
  // called once, from another thread, with a sentence when it cannot go on. Errors: the HTTP
  // server's, and a state folder that cannot be used.
  static Result<std::unique_ptr<Agent>> start(AgentSettings settings,
                                              std::unique_ptr<CardSource> cards,
                                              kube::Transport& transport,
                                              std::function<void(const std::string&)> on_fatal);
  // REQUIRES: not on the transport's executor, which still runs.
  ~Agent();

  std::uint16_t port() const;
  bool ready() const;

 private:
  struct State;
  explicit Agent(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::plugin
