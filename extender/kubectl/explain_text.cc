#include "extender/kubectl/explain_text.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "common/base/text.h"
#include "extender/kubectl/limits.h"

namespace mgpu::kubectl {
namespace {

using std::int64_t;

std::string name_text(const std::string& text) {
  return sanitize_for_terminal(text, kShownNameMax);
}

std::string sentence_text(const std::string& text) {
  return sanitize_for_terminal(text, kShownSentenceMax);
}

std::string text_of(const Json& json, const char* name) {
  return json.at(name).get<std::string>();
}

int64_t number_of(const Json& json, const char* name) {
  return json.at(name).get<int64_t>();
}

// The reasons begin as those of kube-scheduler, which count nodes.
std::string reason_of_node(const Json& node) {
  constexpr std::string_view kNodesOf = "node(s) ";
  const std::string reason = text_of(node, "reason");
  return reason.starts_with(kNodesOf) ? reason.substr(kNodesOf.size()) : reason;
}

std::string pod_text(const Json& pod) {
  return name_text(text_of(pod, "namespace")) + "/" + name_text(text_of(pod, "name"));
}

// "app: 2 cards, of each 100 % and 4,096 MiB"
std::string request_line(const Json& container) {
  const int64_t cards = number_of(container, "cards");
  const std::string name = name_text(text_of(container, "name"));
  if (!container.contains("memoryMiB")) {
    return fmt::format("{}: {}, whole", name, counted(cards, "card"));
  }
  return fmt::format("{}: {}{} {} % and {} MiB", name, counted(cards, "card"),
                     cards == 1 ? " with" : ", of each", number_of(container, "core"),
                     grouped(number_of(container, "memoryMiB")));
}

std::string indented(const std::string& table) {
  std::string out = "  ";
  for (std::size_t i = 0; i < table.size(); ++i) {
    out += table[i];
    if (table[i] == '\n' && i + 1 < table.size()) out += "  ";
  }
  return out;
}

// What kube-scheduler's message and the extender's answers add up to, one section each.
class Sections {
 public:
  Sections(const Json& explained, bool wide, bool terminal)
      : from_(explained), wide_(wide), terminal_(terminal) {}

  std::string take() {
    if (from_.contains("node")) {
      add_landing();
      add_notes();
    } else {
      add_verdict(waiting_verdict());
      if (!from_.at("nodes").empty()) add_waiting();
    }
    return std::move(out_);
  }

 private:
  // "research/notebook is pending: ...", and the request and the policy below it.
  void add_verdict(const std::string& verdict) {
    out_ += fmt::format("{} {}\n", pod_text(from_), verdict);
    for (const Json& container : from_.at("request").at("containers")) {
      out_ += fmt::format("  requests  {}\n", request_line(container));
    }
    if (from_.contains("policy")) {
      out_ += fmt::format("  policy    {}\n", name_text(text_of(from_, "policy")));
    }
  }

  // "app: 0,3 (A100-80G, NV2)", with the model and the worst link between two of the cards.
  static std::string cards_text(const Json& container, const char* name) {
    std::vector<std::string> more = {container.value("model", ""), container.value("link", "")};
    std::erase(more, "");
    const std::string text =
        fmt::format("{}: {}", name_text(text_of(container, name)),
                    fmt::join(container.at("cards").get<std::vector<int64_t>>(), ","));
    return more.empty() ? text : text + name_text(fmt::format(" ({})", fmt::join(more, ", ")));
  }

  // What is wrong with the cards that the pod has; empty if nothing is.
  std::string broken_cards() const {
    std::string text;
    if (!from_.contains("holds")) return text;
    std::set<int64_t> held;
    for (const Json& container : from_.at("holds").at("containers")) {
      for (const Json& card : container.at("cards")) held.insert(card.get<int64_t>());
    }
    for (const Json& node : from_.at("nodes")) {
      if (node.at("name") != from_.at("node")) continue;
      for (const Json& card : node.at("cards")) {
        const std::string why = card.value("why", "");
        const int64_t index = number_of(card, "index");
        if (!why.starts_with("unhealthy") || held.erase(index) == 0) continue;
        text += fmt::format("{}card {} is {}", text.empty() ? "" : ", ", index, sentence_text(why));
      }
    }
    return text;
  }

  void add_landing() {
    const std::string node = name_text(text_of(from_, "node"));
    const std::string broken = broken_cards();
    add_verdict(fmt::format("is bound to {}{}.", node, broken.empty() ? "" : ", where " + broken));
    if (from_.contains("holds")) {
      const Json& holds = from_.at("holds");
      for (const Json& container : holds.at("containers")) {
        out_ += fmt::format("  cards     {}\n", cards_text(container, "name"));
      }
      if (holds.contains("driftDetail")) {
        out_ += fmt::format("  drift     {}\n", sentence_text(text_of(holds, "driftDetail")));
      }
    }
    if (!from_.contains("now")) return;
    const Json& now = from_.at("now");
    const int64_t fitting = number_of(now, "nodesFitting");
    if (!now.contains("rank")) {
      out_ += fmt::format("\nIf it were placed now, it would fit on {}, and not on {}.\n",
                          counted(fitting, "other node"), node);
      return;
    }
    out_ += fmt::format(
        "\nIf it were placed now, it would fit on {}, of which its policy ranks {} as number {}.\n",
        counted(fitting, "node"), node, grouped(number_of(now, "rank")));
    if (number_of(now, "rank") > 1) {
      out_ += fmt::format(
          "The best node now is {}: the nodes have changed since the pod was bound, or "
          "kube-scheduler did not consider that node for it.\n",
          name_text(text_of(now, "best")));
    }
  }

  std::string waiting_verdict() const {
    if (from_.contains("gates")) {
      const auto gates = from_.at("gates").get<std::vector<std::string>>();
      return fmt::format(
          "is pending: it has the scheduling gate {}, and kube-scheduler does not consider it "
          "until that is removed, as by the queue that admits it.",
          sentence_text(fmt::format("{}", fmt::join(gates, " and "))));
    }
    if (from_.contains("pending"))
      return fmt::format("is pending: {}.", sentence_text(text_of(from_.at("pending"), "why")));
    // An extender before this member does not have it.
    return fmt::format("cannot be placed: {}.",
                       sentence_text(from_.value("message", "the reasons follow")));
  }

  void add_notes() {
    for (const char* note : {"message", "notConsidered"}) {
      if (from_.contains(note))
        out_ += fmt::format("Note: {}.\n", sentence_text(text_of(from_, note)));
    }
  }

  void add_waiting() {
    add_notes();
    // Otherwise it has the reasons that follow.
    const bool fits = number_of(from_, "nodesFitting") > 0;
    if ((fits || wide_) && from_.contains("schedulerMessage")) {
      out_ +=
          fmt::format("kube-scheduler: {}\n", sentence_text(text_of(from_, "schedulerMessage")));
    }
    const Json pending = from_.value("pending", Json::object());
    const Json ways = pending.value("ways", Json::array());
    if (!ways.empty())
      out_ += fmt::format("\n{} would fit\n", from_.contains("group") ? "One more" : "It");
    for (const Json& way : ways)
      out_ += fmt::format("  {}\n", sentence_text(way.get<std::string>()));
    add_reasons();
    if (wide_) {
      add_nodes();
    } else {
      out_ += "\n-o wide shows each node and card.\n";
    }
  }

  void add_reasons() {
    Table table({{"NODES", false, true}, {"WHY THE POD DOES NOT FIT"}});
    for (const Json& reason : from_.at("reasons")) {
      table.add({{grouped(number_of(reason, "nodes"))}, {text_of(reason, "reason")}});
    }
    add_table("", table);
  }

  void add_nodes() {
    Table table({{"NODE"}, {"FITS"}, {"CARD", false, true}, {"CONTAINER"}, {"WHY"}});
    for (const Json& node : from_.at("nodes")) {
      const bool fits = node.at("fits").get<bool>();
      std::string why = fits ? placement_of(node) : reason_of_node(node);
      if (node.value("cpuOrMemoryMissing", false)) {
        why += (why.empty() ? "" : "; ") + std::string("too little CPU, memory or room for pods");
      }
      table.add({{text_of(node, "name")}, fits_cell(fits), {}, {}, {why}});
      add_cards(table, node);
    }
    add_table("", table);
  }

  // The cards that the pod would get, if links are known for one of its containers.
  static std::string placement_of(const Json& node) {
    std::string text;
    bool linked = false;
    for (const Json& container : node.value("placement", Json::array())) {
      linked = linked || container.contains("link");
      text += (text.empty() ? "cards " : "; ") + cards_text(container, "container");
    }
    return linked ? text : "";
  }

  static Cell fits_cell(bool fits) {
    return fits ? Cell{"yes", Color::kGreen} : Cell{"no", Color::kYellow};
  }

  void add_cards(Table& table, const Json& node) {
    for (const Json& card : node.at("cards")) {
      const bool fits = card.at("fits").get<bool>();
      table.add({{text_of(node, "name")},
                 fits_cell(fits),
                 {std::to_string(number_of(card, "index"))},
                 {text_of(card, "container")},
                 {fits ? "" : text_of(card, "why")}});
    }
  }

  void add_table(const std::string& title, const Table& table) {
    if (table.empty()) return;
    out_ += "\n" + title + indented(table.text(wide_, terminal_));
  }

  const Json& from_;
  const bool wide_;
  const bool terminal_;
  std::string out_;
};

}  // namespace

std::string said_text(const Json& said) {
  std::string text = fmt::format(
      "{} is {}.\n", pod_text(said),
      said.contains("node") ? "bound to " + name_text(text_of(said, "node")) : "pending");
  if (said.contains("schedulerMessage"))
    text += fmt::format("kube-scheduler: {}\n", sentence_text(text_of(said, "schedulerMessage")));
  if (!said.contains("node") && said.at("events").empty())
    text += "The Event MGPUPending says what would help, 30 seconds after kube-scheduler's.\n";
  for (const Json& event : said.at("events")) {
    text += fmt::format("{}: {}\n", name_text(text_of(event, "reason")),
                        sentence_text(text_of(event, "message")));
  }
  return text;
}

Result<std::string> explain_text(const Json& explained, bool wide, bool terminal) {
  return read_answer<std::string>("/inspect/explain of the extender",
                                  [&] { return Sections(explained, wide, terminal).take(); });
}

}  // namespace mgpu::kubectl
