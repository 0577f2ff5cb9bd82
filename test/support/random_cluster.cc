#include "test/support/random_cluster.h"

#include <algorithm>
#include <functional>
#include <string>

namespace mgpu::test {

using extender::Candidate;
using extender::Card;
using extender::Node;

// The distributions of the standard library differ between implementations.
int RandomCluster::number(int below) {
  return static_cast<int>(random_() % static_cast<std::uint64_t>(below));
}

Share RandomCluster::share() {
  return {Percent(10 * (1 + number(9))), MiB(100 * (1 + number(9)))};
}

Card RandomCluster::card(int index) {
  Card card;
  card.index = CardIndex(index);
  card.uuid = CardUuid("GPU-" + std::to_string(index));
  card.model = one_in(2) ? "A100" : "H100";
  card.capacity = {kWholeCard, MiB(one_in(4) ? 500 : 1000)};
  if (one_in(4)) card.capacity.core = Percent(150 + 50 * number(3));
  if (one_in(2)) card.used = {Percent(10 * number(10)), MiB(100 * number(10))};
  if (one_in(20)) card.used = {Percent(130), MiB(100)};
  if (one_in(3)) card.expected = share();
  card.healthy = !one_in(12);
  card.uncertain = one_in(12);
  return card;
}

Node RandomCluster::node(int most_cards) {
  Node node;
  node.name = NodeName("n");
  int index = 0;
  const int cards = number(most_cards + 1);
  for (int i = 0; i < cards; ++i, index += 1 + number(2)) node.cards.push_back(card(index));
  return node;
}

ContainerRequest RandomCluster::container(int most_cards) {
  constexpr ContainerKind kKinds[] = {ContainerKind::kApp, ContainerKind::kApp,
                                      ContainerKind::kInit, ContainerKind::kSidecar};
  ContainerRequest container;
  container.kind = kKinds[number(4)];
  container.cards = one_in(3) ? 1 + number(most_cards) : 1;
  container.whole = one_in(6);
  container.per_card = container.whole ? Share{kWholeCard, MiB{}} : share();
  return container;
}

GpuRequest RandomCluster::request(int most_containers, int most_cards) {
  GpuRequest request;
  const int containers = 1 + number(most_containers);
  for (int i = 0; i < containers; ++i) {
    const bool again = i > 0 && one_in(3);
    request.containers.push_back(again ? request.containers.back() : container(most_cards));
  }
  const auto is_app = [](const auto& asked) { return asked.kind == ContainerKind::kApp; };
  std::ranges::stable_partition(request.containers, std::not_fn(is_app));
  for (std::size_t i = 0; i < request.containers.size(); ++i) {
    request.containers[i].name = "c" + std::to_string(i);
  }
  if (one_in(6)) request.selector.models = {"a100"};
  if (one_in(12)) request.selector.uuids_excluded = {"GPU-0"};
  return request;
}

std::vector<Candidate> RandomCluster::candidates(const Node& node, int most) {
  std::vector<Share> left;
  for (const Card& card : node.cards) left.push_back(card.used);
  std::vector<Candidate> candidates;
  const int count = number(most + 1);
  for (int i = 0; i < count; ++i) {
    Candidate candidate{
        number(3), one_in(3) ? "" : "2026-01-0" + std::to_string(1 + number(3)), one_in(4), {}};
    for (std::size_t at = 0; at < left.size(); ++at) {
      const Share hold{Percent(10 * (1 + number(5))), MiB(100 * (1 + number(5)))};
      if (one_in(2) || !hold.fits_in(left[at])) continue;
      left[at] -= hold;
      candidate.holds.push_back({node.cards[at].index, hold});
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace mgpu::test
