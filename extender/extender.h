// The extender as one object: ledger, reflectors, verbs, inspection and the HTTP server, over any
// Transport. main.cc runs it over libcurl, mgpu-sim and the tests over the in-memory API server.
//
//   Starting (listening, /readyz 503) --nodes, pods and budgets listed--> Ready --drain()-->
//   Draining
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/http/server.h"
#include "common/kube/transport.h"
#include "extender/bind/limits.h"
#include "extender/verbs/verbs.h"

namespace mgpu::extender {

struct ExtenderSettings {
  Settings verbs;
  http::ServerOptions http;
  std::string url_prefix = "/mgpu";  // of the four verbs; starts with "/", does not end with it
  std::size_t binds_in_flight = kBindsInFlight;
  std::string requeue_namespace;  // of SchedulerRequeue's object; empty: pods are never requeued
};

class Extender {
 public:
  // Listens and begins to list when it returns. `transport` outlives the extender.
  // Errors: those of http::Server::start.
  static Result<std::unique_ptr<Extender>> start(ExtenderSettings settings,
                                                 kube::Transport& transport);
  // Drains, then ends. REQUIRES: not on the transport's executor, which still runs.
  ~Extender();

  std::uint16_t port() const;
  bool ready() const;
  // Stops being ready and drains the server; the destructor waits for it.
  void drain();

 private:
  struct State;
  explicit Extender(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::extender
