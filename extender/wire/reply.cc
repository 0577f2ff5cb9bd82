#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/base/text.h"
#include "extender/wire/wire.h"

// A reply of filter can have thousands of names: it is written into a buffer of about the right
// size, and names that had no escapes in the request are copied.

namespace mgpu::extender {
namespace {

// The loop has no early end, so that the compiler vectorizes it.
bool needs_no_escapes(std::string_view text) {
  bool all = true;
  for (const char c : text) all &= (c >= ' ') & (c < 0x7F) & (c != '"') & (c != '\\');
  return all;
}

class Writer {
 public:
  // `size` is an estimate of what will be written; one that is too low only costs time.
  explicit Writer(std::size_t size) : text_(size, '\0') {}

  void raw(std::string_view text) { put(room(text.size()), text); }
  // Writes a JSON string, then the text that follows it. `no_escapes`: `text` needs none.
  void quoted(std::string_view text, bool no_escapes = false, std::string_view then = {}) {
    if (!no_escapes && !needs_no_escapes(text)) return quoted(json_escaped(text), true, then);
    char* at = room(text.size() + then.size() + 2);
    *at = '"';
    at = put(at + 1, text);
    *at = '"';
    put(at + 1, then);
  }
  void number(std::int64_t number) {
    char digits[24];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    raw({digits, end});
  }
  // Calls `write(item)` for each item and writes commas between them.
  template <class Items, class Write>
  void list(const Items& items, Write write) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) raw(",");
      first = false;
      write(item);
    }
  }
  std::string take() {
    text_.resize(at_);
    return std::move(text_);
  }

 private:
  char* room(std::size_t size) {
    if (text_.size() - at_ < size) text_.resize(2 * (text_.size() + size));
    char* begin = text_.data() + at_;
    at_ += size;
    return begin;
  }
  static char* put(char* at, std::string_view text) {
    if (!text.empty()) std::memcpy(at, text.data(), text.size());
    return at + text.size();
  }

  std::string text_;
  std::size_t at_ = 0;
};

// The few distinct sentences of the refusals, as JSON text. They are found by address: refusals for
// one reason point to one sentence.
class SentenceCache {
 public:
  // A colon and the sentence as a JSON string. Valid until the next call.
  std::string_view json_of(std::string_view sentence) {
    for (const Entry& entry : entries_) {
      if (entry.sentence.data() == sentence.data() && entry.sentence == sentence) return entry.json;
    }
    if (entries_.size() == kEntriesMax) entries_.clear();
    entries_.push_back({sentence, ":\"" + json_escaped(sentence) + '"'});
    return entries_.back().json;
  }

 private:
  static constexpr std::size_t kEntriesMax = 16;
  struct Entry {
    std::string_view sentence;
    std::string json;
  };
  std::vector<Entry> entries_;
};

void write_refusals(Writer& out, std::span<const RefusedNode> refusals, bool no_escapes) {
  if (refusals.empty()) return out.raw("null");
  SentenceCache sentences;
  out.raw("{");
  out.list(refusals, [&](const RefusedNode& refusal) {
    out.quoted(refusal.node, no_escapes, sentences.json_of(refusal.sentence));
  });
  out.raw("}");
}

// Quotes, colons and commas are included. Escapes are rare: the buffer grows for them.
std::size_t size_of(const FilterReply& reply) {
  std::size_t size = 256;
  for (const auto name : reply.fitting) size += name.size() + 3;
  for (const auto* refusals : {&reply.failed, &reply.failed_and_unresolvable}) {
    for (const auto& [node, sentence] : *refusals) size += node.size() + sentence.size() + 6;
  }
  return size;
}

}  // namespace

std::string write_filter_reply(const FilterReply& reply, const ExtenderArgs& args,
                               bool is_evicting) {
  const bool no_escapes = args.names_without_escapes();
  std::vector<RefusedNode> nominated;
  std::vector<RefusedNode> others = reply.failed_and_unresolvable;
  for (const RefusedNode& refusal : reply.failed) {
    const std::string& on = args.pod().nominated_node;
    const bool waits_there = on.empty() ? is_evicting : refusal.node == on;
    (waits_there ? nominated : others).push_back(refusal);
  }
  Writer out(size_of(reply));
  out.raw(R"({"Nodes":null,"NodeNames":[)");
  out.list(reply.fitting, [&](std::string_view name) { out.quoted(name, no_escapes); });
  out.raw(R"(],"FailedNodes":)");
  write_refusals(out, nominated, no_escapes);
  out.raw(R"(,"FailedAndUnresolvableNodes":)");
  write_refusals(out, others, no_escapes);
  out.raw(R"(,"Error":""})");
  return out.take();
}

std::string write_prioritize_reply(std::span<const HostScore> scores, const ExtenderArgs& args) {
  std::size_t size = 2;
  for (const HostScore& score : scores) size += score.node.size() + 24;
  Writer out(size);
  out.raw("[");
  out.list(scores, [&](const HostScore& score) {
    out.raw(R"({"Host":)");
    out.quoted(score.node, args.names_without_escapes(), R"(,"Score":)");
    out.number(score.score);
    out.raw("}");
  });
  out.raw("]");
  return out.take();
}

std::string write_binding_reply(std::string_view error) {
  Writer out(error.size() + 16);
  out.raw(R"({"Error":)");
  out.quoted(error);
  out.raw("}");
  return out.take();
}

std::string write_preemption_reply(std::span<const NodeVictims> nodes) {
  Writer out(256);
  out.raw(R"({"NodeNameToMetaVictims":{)");
  out.list(nodes, [&](const NodeVictims& node) {
    out.quoted(node.node.str());
    out.raw(R"(:{"Pods":[)");
    out.list(node.victims, [&](const PodUid& uid) {
      out.raw(R"({"UID":)");
      out.quoted(uid.str());
      out.raw("}");
    });
    out.raw(R"(],"NumPDBViolations":)");
    out.number(node.pdb_violations);
    out.raw("}");
  });
  out.raw("}}");
  return out.take();
}

}  // namespace mgpu::extender
