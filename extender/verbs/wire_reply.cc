#include <charconv>

#include "common/check.h"
#include "common/text.h"
#include "extender/verbs/wire.h"

// Replies are written straight into one string: a filter's can have thousands of names.

namespace mgpu::verbs {
namespace {

bool plain(char c) {
  return c >= ' ' && c < 0x7F && c != '"' && c != '\\';
}

void append_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (plain(c)) continue;
    out += json_escaped(text);
    out += '"';
    return;
  }
  out += text;
  out += '"';
}

void append_number(std::string& out, std::int64_t number) {
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out.append(digits, end);
}

// `append(item)` for each, with commas between.
template <class Items, class Append>
void append_list(std::string& out, const Items& items, Append append) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append(item);
  }
}

void append_names(std::string& out, std::span<const std::string_view> names) {
  out += '[';
  append_list(out, names, [&](std::string_view name) { append_text(out, name); });
  out += ']';
}

void append_full_nodes(std::string& out, const FilterReply& reply,
                       std::span<const FullNode> nodes) {
  out += R"({"metadata":{},"items":[)";
  append_list(out, reply.fitting_full_nodes, [&](std::size_t index) {
    MGPU_CHECK(index < nodes.size(), "a node of the request");
    out += nodes[index].json;
  });
  out += "]}";
}

void append_refusals(std::string& out, std::span<const Refusal> refusals) {
  if (refusals.empty()) {
    out += "null";
    return;
  }
  out += '{';
  append_list(out, refusals, [&](const Refusal& refusal) {
    append_text(out, refusal.node);
    out += ':';
    append_text(out, refusal.sentence);
  });
  out += '}';
}

// Quotes, colons and commas included; escapes are rare enough to let the string grow.
std::size_t size_of(const FilterReply& reply, std::span<const FullNode> nodes) {
  std::size_t size = 256 + reply.error.size();
  for (const auto name : reply.fitting) size += name.size() + 3;
  for (const auto index : reply.fitting_full_nodes) size += nodes[index].json.size() + 1;
  for (const auto& refusal : reply.failed)
    size += refusal.node.size() + refusal.sentence.size() + 6;
  for (const auto& refusal : reply.failed_and_unresolvable) {
    size += refusal.node.size() + refusal.sentence.size() + 6;
  }
  return size;
}

void append_victims(std::string& out, const NodeVictims& node) {
  append_text(out, node.node.str());
  out += R"(:{"Pods":[)";
  append_list(out, node.victims, [&](const PodUid& uid) {
    out += R"({"UID":)";
    append_text(out, uid.str());
    out += '}';
  });
  out += R"(],"NumPDBViolations":)";
  append_number(out, node.pdb_violations);
  out += '}';
}

}  // namespace

std::string write_filter_reply(const FilterReply& reply, const ExtenderArgs* args) {
  const bool full = args != nullptr && args->has_full_nodes();
  const auto nodes = full ? args->full_nodes() : std::span<const FullNode>();
  const bool failed = !reply.error.empty();
  std::string out;
  out.reserve(size_of(reply, nodes));
  out += R"({"Nodes":)";
  full && !failed ? append_full_nodes(out, reply, nodes) : void(out += "null");
  out += R"(,"NodeNames":)";
  !full && !failed ? append_names(out, reply.fitting) : void(out += "null");
  out += R"(,"FailedNodes":)";
  append_refusals(out, reply.failed);
  out += R"(,"FailedAndUnresolvableNodes":)";
  append_refusals(out, reply.failed_and_unresolvable);
  out += R"(,"Error":)";
  append_text(out, reply.error);
  out += '}';
  return out;
}

std::string write_prioritize_reply(std::span<const HostScore> scores) {
  std::string out;
  std::size_t size = 2;
  for (const HostScore& score : scores) size += score.node.size() + 24;
  out.reserve(size);
  out += '[';
  append_list(out, scores, [&](const HostScore& score) {
    out += R"({"Host":)";
    append_text(out, score.node);
    out += R"(,"Score":)";
    append_number(out, score.score);
    out += '}';
  });
  out += ']';
  return out;
}

std::string write_binding_reply(std::string_view error) {
  std::string out = R"({"Error":)";
  append_text(out, error);
  out += '}';
  return out;
}

std::string write_preemption_reply(std::span<const NodeVictims> nodes) {
  std::string out = R"({"NodeNameToMetaVictims":{)";
  append_list(out, nodes, [&](const NodeVictims& node) { append_victims(out, node); });
  out += "}}";
  return out;
}

}  // namespace mgpu::verbs
