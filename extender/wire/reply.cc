#include <algorithm>
#include <charconv>
#include <cstring>

#include "common/base/check.h"
#include "common/base/text.h"
#include "extender/wire/wire.h"

// A filter's reply can have thousands of names: it is written into memory of the right size at
// once, and names that came without escapes go back as they stand.

namespace mgpu::extender {
namespace {

// Without an end in between, so that several characters are looked at in one step.
bool plain(std::string_view text) {
  bool all = true;
  for (const char c : text) all &= (c >= ' ') & (c < 0x7F) & (c != '"') & (c != '\\');
  return all;
}

class Writer {
 public:
  // `size`: of what will be written; a guess that is too low costs time only.
  explicit Writer(std::size_t size) : text_(size, '\0') {}

  void raw(std::string_view text) { put(room(text.size()), text); }
  // As a JSON string, and what follows it. `as_written`: it stood in one like this.
  void quoted(std::string_view text, bool as_written = false, std::string_view then = {}) {
    if (!as_written && !plain(text)) return quoted(json_escaped(text), true, then);
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
  // `write(item)` for each, with commas between.
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

void write_names(Writer& out, std::span<const std::string_view> names, bool as_written) {
  out.raw("[");
  out.list(names, [&](std::string_view name) { out.quoted(name, as_written); });
  out.raw("]");
}

void write_full_nodes(Writer& out, const FilterReply& reply, std::span<const FullNode> nodes) {
  out.raw(R"({"metadata":{},"items":[)");
  out.list(reply.fitting_full_nodes, [&](std::size_t index) {
    MGPU_CHECK(index < nodes.size(), "a node of the request");
    out.raw(nodes[index].json);
  });
  out.raw("]}");
}

// Refusals are told in a few sentences, each of which stands in one place.
class SentenceCache {
 public:
  // After a colon, as a JSON string. Valid until the next call.
  std::string_view told(std::string_view sentence) {
    for (const Known& known : known_)
      if (known.sentence.data() == sentence.data() && known.sentence == sentence) return known.told;
    if (known_.size() == kMost) known_.clear();
    known_.push_back({sentence, ":\"" + json_escaped(sentence) + '"'});
    return known_.back().told;
  }

 private:
  static constexpr std::size_t kMost = 16;
  struct Known {
    std::string_view sentence;
    std::string told;
  };
  std::vector<Known> known_;
};

void write_refusals(Writer& out, std::span<const Refusal> refusals, bool as_written) {
  if (refusals.empty()) return out.raw("null");
  SentenceCache sentences;
  out.raw("{");
  out.list(refusals, [&](const Refusal& refusal) {
    out.quoted(refusal.node, as_written, sentences.told(refusal.sentence));
  });
  out.raw("}");
}

// Quotes, colons and commas included; escapes are rare enough to let the text grow.
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

void write_victims(Writer& out, const NodeVictims& node) {
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
}

}  // namespace

std::string write_filter_reply(const FilterReply& reply, const ExtenderArgs* args) {
  const bool full = args != nullptr && args->has_full_nodes();
  const bool as_written = args != nullptr && args->names_as_written();
  const auto nodes = full ? args->full_nodes() : std::span<const FullNode>();
  const bool failed = !reply.error.empty();
  Writer out(size_of(reply, nodes));
  out.raw(R"({"Nodes":)");
  full && !failed ? write_full_nodes(out, reply, nodes) : out.raw("null");
  out.raw(R"(,"NodeNames":)");
  !full && !failed ? write_names(out, reply.fitting, as_written) : out.raw("null");
  out.raw(R"(,"FailedNodes":)");
  write_refusals(out, reply.failed, as_written);
  out.raw(R"(,"FailedAndUnresolvableNodes":)");
  write_refusals(out, reply.failed_and_unresolvable, as_written);
  out.raw(R"(,"Error":)");
  out.quoted(reply.error);
  out.raw("}");
  return out.take();
}

std::string write_prioritize_reply(std::span<const HostScore> scores, const ExtenderArgs* args) {
  const bool as_written = args != nullptr && args->names_as_written();
  std::size_t size = 2;
  for (const HostScore& score : scores) size += score.node.size() + 24;
  Writer out(size);
  out.raw("[");
  out.list(scores, [&](const HostScore& score) {
    out.raw(R"({"Host":)");
    out.quoted(score.node, as_written, R"(,"Score":)");
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
  out.list(nodes, [&](const NodeVictims& node) { write_victims(out, node); });
  out.raw("}}");
  return out.take();
}

}  // namespace mgpu::extender
