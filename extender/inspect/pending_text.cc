#include "extender/inspect/pending_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <vector>

#include "common/base/text.h"
#include "common/kube/limits.h"
#include "extender/inspect/limits.h"

namespace mgpu::extender {
namespace {

using std::int64_t;

int64_t number_of(const Json& json, const char* name) {
  return json.at(name).get<int64_t>();
}

std::string text_of(const Json& json, const char* name) {
  return json.at(name).get<std::string>();
}

std::string amounts(const Json& share) {
  return fmt::format("mgpu-core {} and mgpu-memory {}", number_of(share, "core"),
                     number_of(share, "memoryMiB"));
}

bool is_whole(const Json& container) {
  return !container.contains("memoryMiB");
}

// "container app needs 2 cards of one node with mgpu-core 50 and mgpu-memory 4096 free on each"
std::string needs_text(const Json& container) {
  const int64_t cards = number_of(container, "cards");
  std::string text = fmt::format("container {} needs ", text_of(container, "name"));
  if (is_whole(container))
    return text + (cards == 1 ? "a whole card" : fmt::format("{} whole cards of one node", cards));
  text += cards == 1 ? "a card" : fmt::format("{} cards of one node", cards);
  return text + fmt::format(" with {} free{}", amounts(container), cards == 1 ? "" : " on each");
}

// The most that there is for the container, which lacks room.
std::string has_text(const Json& container, const Json& room) {
  if (!room.contains("largest")) return "no card matches";
  const Json& largest = room.at("largest");
  if (!is_whole(container) && number_of(container, "memoryMiB") > number_of(largest, "memoryMiB")) {
    return "the largest card has " + amounts(largest);
  }
  if (!room.contains("free")) return "no card that matches is usable";
  const int64_t cards = number_of(room, "cards");
  if (is_whole(container) || number_of(container, "cards") > 1)
    return cards == 0 ? "no such card is free" : fmt::format("no node has more than {}", cards);
  return fmt::format("the nearest card has {} free", amounts(room.at("free")));
}

// What the first container for which no node has enough cards needs, and what there is.
std::string shortage_text(const Json& explained) {
  const Json& containers = explained.at("request").at("containers");
  const Json& rooms = explained.at("room");
  for (std::size_t i = 0; i < rooms.size(); ++i) {
    if (number_of(rooms[i], "cards") >= number_of(containers.at(i), "cards")) continue;
    return fmt::format("{}; {}", needs_text(containers.at(i)),
                       has_text(containers.at(i), rooms[i]));
  }
  return {};
}

bool is_kept_out(const Json& reason) {
  return reason.contains("keptOut");
}

// Returns the reasons of all nodes, or only of those that keep the pod out.
std::string reasons_text(const Json& explained, bool all) {
  std::vector<std::string> reasons;
  for (const Json& reason : explained.at("reasons")) {
    if (!all && !is_kept_out(reason)) continue;
    reasons.push_back(fmt::format("{} {}", number_of(reason, "nodes"), text_of(reason, "reason")));
  }
  return fmt::format("{}", fmt::join(reasons, ", "));
}

// As in the manifest: "mgpu-core 40 instead of 60".
std::string smaller_text(const Json& explained, const Json& smaller) {
  std::vector<std::string> changes;
  for (const Json& container : explained.at("request").at("containers")) {
    if (container.at("name") != smaller.at("container")) continue;
    const int64_t cards = number_of(container, "cards");
    const auto add = [&](const char* amount, const char* resource) {
      const int64_t less = number_of(smaller, amount);
      if (less == 0) return;
      const int64_t now = number_of(container, amount);
      changes.push_back(
          fmt::format("{} {} instead of {}", resource, cards * (now - less), cards * now));
    };
    add("core", "mgpu-core");
    add("memoryMiB", "mgpu-memory");
    break;
  }
  return fmt::format("with {} for container {}", fmt::join(changes, " and "),
                     text_of(smaller, "container"));
}

std::string release_text(const std::string& name_space, const Json& release) {
  std::vector<std::string> pods;
  int64_t others = 0;
  int64_t more = 0;
  for (const Json& pod : release.at("pods")) {
    if (!name_space.empty() && pod.at("namespace") != name_space) {
      ++others;
    } else if (pods.size() < kPendingTextPodsMax) {
      pods.push_back((name_space.empty() ? text_of(pod, "namespace") + "/" : "pod ") +
                     text_of(pod, "name"));
    } else {
      ++more;
    }
  }
  if (more > 0) pods.push_back(counted(more, "more pod"));
  if (others > 0) pods.push_back(counted(others, "pod") + " of other namespaces");
  const bool one = pods.size() == 1 && others <= 1;
  return fmt::format("when {} {}", fmt::join(pods, " and "), one ? "terminates" : "terminate");
}

std::string uncordon_text(const Json& uncordon) {
  const auto cards = uncordon.at("cards").get<std::vector<int64_t>>();
  const std::string indices = fmt::format("{}", fmt::join(cards, ","));
  return cards.size() == 1 ? "once its card " + indices + " is uncordoned"
                           : "once its cards " + indices + " are uncordoned";
}

struct Ways {
  std::vector<std::string> all;
  std::vector<std::string> nearest;  // one of each kind
};

// "on n1 with mgpu-core 40 instead of 60 for container app": those with smaller requests first.
// `name_space`: that of the pods that are named; empty for all.
Ways ways_of(const Json& explained, const std::string& name_space) {
  Ways ways;
  const auto add = [&](const char* kind, const auto& how) {
    bool first = true;
    for (const Json& nearest : explained.at(kind)) {
      ways.all.push_back(fmt::format("on {} {}", text_of(nearest, "node"), how(nearest)));
      if (first) ways.nearest.push_back(ways.all.back());
      first = false;
    }
  };
  add("smallerRequests", [&](const Json& one) { return smaller_text(explained, one); });
  add("releases", [&](const Json& one) { return release_text(name_space, one); });
  add("uncordons", uncordon_text);
  return ways;
}

// "It fits on n1 with mgpu-core 40 instead of 60 for container app, or on n2 when pod a
// terminates".
std::string help_text(const Ways& ways, std::string_view subject) {
  if (ways.nearest.empty()) return "";
  return fmt::format("{} fits {}", subject, fmt::join(ways.nearest, ", or "));
}

// Without those that are empty.
std::string joined(std::vector<std::string> sentences) {
  std::erase(sentences, "");
  return fmt::format("{}", fmt::join(sentences, ". "));
}

bool lacks_group(const Json& explained) {
  return explained.contains("group") && explained.at("group").contains("pending");
}

// The pod fits, and not all pods of its group do.
PendingAnswer group_answer(const Json& group, const std::string& message) {
  const Json& pending = group.at("pending");
  const std::string why =
      fmt::format("its group {} has {} pending, and there are cards for {} like this one",
                  text_of(group, "name"), counted(number_of(group, "pods"), "pod"),
                  counted(number_of(group, "fitting"), "pod"));
  return {joined({why, "For one more, " + text_of(pending, "why")}),
          joined({text_of(pending, "help"), message}),
          pending.at("ways").get<std::vector<std::string>>()};
}

}  // namespace

bool cards_fit(const Json& explained) {
  return number_of(explained, "nodesFitting") > 0 && !lacks_group(explained);
}

PendingAnswer pending_answer(const Json& explained, bool all_names, std::string_view subject) {
  std::string message = explained.value("message", "");
  if (!explained.contains("policy")) return {"invalid request: " + message, "", {}};
  message = joined({message, explained.value("notConsidered", "")});
  if (lacks_group(explained)) return group_answer(explained.at("group"), message);
  if (cards_fit(explained)) {
    return {fmt::format("the cards that the pod needs are free on {}; the Event of kube-scheduler "
                        "says what else is missing there",
                        counted(number_of(explained, "nodesFitting"), "node")),
            message,
            {}};
  }
  const std::string shortage = shortage_text(explained);
  const auto ways = ways_of(explained, all_names ? "" : text_of(explained, "namespace"));
  const std::string help = help_text(ways, subject);
  const std::string reasons = reasons_text(explained, shortage.empty() || help.empty());
  const std::string why = joined({shortage, reasons});
  return {why.empty() ? "the extender has no nodes" : why, joined({help, message}), ways.all};
}

std::string pending_text(const Json& explained) {
  const PendingAnswer answer = pending_answer(explained, false);
  return std::string(cut_text(joined({answer.why, answer.help}), kube::kEventMessageMax));
}

}  // namespace mgpu::extender
