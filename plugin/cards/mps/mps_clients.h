// Ends clients of MPS whose containers are about to be killed, with the command terminate_client of
// their daemon. Their work is not on the card any more then; their processes go on, and get errors.
//
// NVIDIA's program prints why it refuses a command, and reports success. A client has ended once
// the daemon does not list it any more; until then it is tried again, up to kMpsEndTries times.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::plugin {

// Chooses the clients that are to be ended. Called on the thread of MpsClients.
class MpsClientTerminator {
 public:
  struct Due {
    std::set<CardUuid> cards;  // that may have such clients now
    // The time until others may have some. None: nothing is known of any.
    std::optional<std::chrono::milliseconds> next{};
  };

  virtual ~MpsClientTerminator() = default;
  // Called at each step.
  virtual Due due() = 0;
  // The pod of this client of the daemon of the card. None: the client is not to be ended.
  virtual std::optional<PodUid> pod_of(const CardUuid& card, std::int64_t pid) = 0;
};

// One thread.
class MpsClients {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Dependencies {
    // The cards whose daemons respond.
    std::function<std::set<CardUuid>()> running;
    // The response of the daemon of the card. Errors: there is none within `timeout`.
    std::function<Result<std::string>(const CardUuid& card, const std::string& command,
                                      std::chrono::milliseconds timeout)>
        command;
    std::function<Time()> now;
  };

  // `terminator` outlives it. A step takes up to `timeout` for each card that is due, and leaves
  // the other clients of the card to the next step.
  MpsClients(MpsClientTerminator& terminator, Dependencies dependencies,
             std::chrono::milliseconds timeout)
      : terminator_(terminator), dependencies_(std::move(dependencies)), timeout_(timeout) {}

  // Returns the time to the next step, at most `longest`.
  std::chrono::milliseconds step(std::chrono::milliseconds longest);

 private:
  struct Client {
    std::int64_t server = 0;
    std::int64_t pid = 0;
    auto operator<=>(const Client&) const = default;
  };
  using Clients = std::map<Client, PodUid>;
  // How often clients were tried that are still listed.
  struct Tries {
    std::map<Client, int> of_client;
    std::map<PodUid, int> of_pod;
  };

  void end_clients(const CardUuid& card);
  // Returns nullopt if the daemon does not respond, which its probes report.
  std::optional<Clients> clients_to_end(const CardUuid& card, Time deadline);
  void end_client(const CardUuid& card, const Client& client, const PodUid& pod, Time deadline);
  Result<std::string> command(const CardUuid& card, const std::string& text, Time deadline);

  MpsClientTerminator& terminator_;
  const Dependencies dependencies_;
  const std::chrono::milliseconds timeout_;
  std::map<CardUuid, Tries> tries_;  // of the cards that are due
};

}  // namespace mgpu::plugin
