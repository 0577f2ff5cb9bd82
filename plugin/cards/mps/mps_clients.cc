#include "plugin/cards/mps/mps_clients.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/log.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/mps/mps_daemon.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;

}  // namespace

milliseconds MpsClients::step(milliseconds longest) {
  const MpsClientTerminator::Due due = terminator_.due();
  std::erase_if(tries_, [&due](const auto& tries) { return !due.cards.contains(tries.first); });
  for (const CardUuid& card : due.cards) {
    if (dependencies_.running().contains(card)) end_clients(card);
  }
  return std::min(longest, due.next.value_or(longest));
}

void MpsClients::end_clients(const CardUuid& card) {
  const Time deadline = dependencies_.now() + timeout_;
  auto found = clients_to_end(card, deadline);
  if (!found) return;
  Clients& left = *found;
  Tries& tries = tries_[card];
  std::erase_if(tries.of_client, [&](const auto& tried) { return !left.contains(tried.first); });
  std::erase_if(tries.of_pod, [&](const auto& tried) {
    return std::ranges::none_of(left, [&](const auto& at) { return at.second == tried.first; });
  });
  std::erase_if(left, [&](const auto& at) { return tries.of_client[at.first] >= kMpsEndTries; });
  while (!left.empty() && dependencies_.now() < deadline) {
    // A pod whose many clients end slowly does not delay those of other pods.
    const auto next = std::ranges::min_element(left, {}, [&](const auto& at) {
      return std::pair(tries.of_client[at.first], tries.of_pod[at.second]);
    });
    const auto [client, pod] = *next;
    left.erase(next);
    ++tries.of_client[client];
    MGPU_DEBUG_CHECK(tries.of_client[client] <= kMpsEndTries, "a client is tried a few times only");
    ++tries.of_pod[pod];
    end_client(card, client, pod, deadline);
  }
}

std::optional<MpsClients::Clients> MpsClients::clients_to_end(const CardUuid& card, Time deadline) {
  Clients clients;
  const auto servers = command(card, "get_server_list", deadline);
  if (!servers) return std::nullopt;
  for (const std::int64_t server : parse_pids(*servers)) {
    const auto pids = command(card, fmt::format("get_client_list {}", server), deadline);
    if (!pids) return std::nullopt;
    for (const std::int64_t pid : parse_pids(*pids)) {
      if (const auto pod = terminator_.pod_of(card, pid))
        clients.emplace(Client{server, pid}, *pod);
    }
  }
  return clients;
}

void MpsClients::end_client(const CardUuid& card, const Client& client, const PodUid& pod,
                            Time deadline) {
  // Its process may have ended since, and its number may belong to another one.
  if (terminator_.pod_of(card, client.pid) != pod) return;
  const auto response =
      command(card, fmt::format("terminate_client {} {}", client.server, client.pid), deadline);
  if (!response) {
    log_warn("a client of MPS was not ended before its container is killed",
             {{"pod_uid", pod.str()},
              {"card", card.str()},
              {"pid", std::to_string(client.pid)},
              {"problem", response.error().message}});
    return;
  }
  log_info("a client of MPS is ended before its container is killed",
           {{"pod_uid", pod.str()},
            {"card", card.str()},
            {"pid", std::to_string(client.pid)},
            {"response", *response}});
}

Result<std::string> MpsClients::command(const CardUuid& card, const std::string& text,
                                        Time deadline) {
  const auto left = std::chrono::floor<milliseconds>(deadline - dependencies_.now());
  if (left <= milliseconds(0)) return error("there is no time left for \"" + text + "\"");
  return dependencies_.command(card, text, left);
}

}  // namespace mgpu::plugin
