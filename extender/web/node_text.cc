#include "extender/web/node_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <vector>

#include "common/base/text.h"

namespace mgpu::extender {
namespace {

template <class List, class Append>
void append_list(std::string& out, const List& list, const Append& append) {
  out += '[';
  bool first = true;
  for (const auto& element : list) {
    if (!first) out += ',';
    first = false;
    append(out, element);
  }
  out += ']';
}

template <class... Arguments>
void add(std::string& out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Arguments>(arguments)...);
}

void append_card(std::string& out, const Card& card, const Healths& healths) {
  const Share free = card.usable() ? card.room() : Share();
  const int flags = (card.healthy ? 1 : 0) | (card.uncertain ? 2 : 0) | (card.cordoned ? 4 : 0) |
                    (card.reserved ? 8 : 0) | (card.instance ? 16 : 0);
  const auto health = healths.find(card.index);
  add(out, R"([{},"{}","{}",{},{},{},{},{},{},{},{},{},"{}"])", card.index.value(),
      json_escaped(card.uuid.str()), json_escaped(card.model), flags, card.capacity.core.value(),
      card.used.core.value(), free.core.value(), card.expected.core.value(),
      card.capacity.memory.value(), card.used.memory.value(), free.memory.value(),
      card.expected.memory.value(),
      health == healths.end() ? std::string() : json_escaped(health->second));
}

void append_hold(std::string& out, const CardHold& hold) {
  add(out, "[{},{},{}]", hold.card.value(), hold.share.core.value(), hold.share.memory.value());
}

void append_pod(std::string& out, const ClaimView& view) {
  const Claim& claim = view.claim;
  add(out, R"(["{}","{}",{},{},"{}",)", json_escaped(claim.pod.name_space),
      json_escaped(claim.pod.name), view.phase == Phase::kBound ? 1 : 0, claim.priority,
      claim.drift ? to_string(*claim.drift) : std::string_view());
  append_list(out, view.holds, append_hold);
  out += ']';
}

// "cordoned, taint pool:NoSchedule"; empty if nothing keeps pods from the node.
std::string kept_out_by(const NodeView& view) {
  std::vector<std::string> by;
  if (view.cordoned) by.emplace_back("cordoned");
  for (const kube::Taint& taint : view.taints)
    by.push_back(fmt::format("taint {}:{}", taint.key, taint.effect));
  return fmt::format("{}", fmt::join(by, ", "));
}

}  // namespace

void append_node(std::string& out, const NodeName& name, const NodeView& view) {
  add(out, R"(["{}","{}",)", json_escaped(name.str()), json_escaped(view.problem));
  append_list(out, view.node.cards,
              [&](std::string& to, const Card& card) { append_card(to, card, view.healths); });
  out += ',';
  append_list(out, view.claims, append_pod);
  const std::string kept = kept_out_by(view);
  if (!kept.empty()) add(out, R"(,"{}")", json_escaped(kept));
  out += ']';
}

}  // namespace mgpu::extender
