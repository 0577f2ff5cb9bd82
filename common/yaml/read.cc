#include "common/yaml/read.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/yaml/limits.h"

namespace mgpu::yaml {
namespace {

using Kind = Value::Kind;

struct Refused {
  std::string sentence;
};

[[noreturn]] void refuse(int line, std::string_view why) {
  throw Refused{fmt::format("line {}: {}", line, why)};
}

// yaml-cpp gives texts in quotes or blocks the tag "!", and other values without a tag "?" or none.
bool is_text_tag(const YAML::Mark& mark, const std::string& tag) {
  if (tag == "!" || tag == "tag:yaml.org,2002:str") return true;
  for (const char* none : {"", "?", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}) {
    if (tag == none) return false;
  }
  refuse(mark.line + 1, fmt::format("has the tag {}, expected no tags", in_quotes(tag)));
}

// Values and bytes of texts.
std::size_t cost_of(const Value& value) {
  std::size_t cost = 1 + value.text.size();
  for (const Key& key : value.keys) cost += key.text.size();
  for (const Value& item : value.items) cost += cost_of(item);
  return cost;
}

int levels_of(const Value& value) {
  int below = 0;
  for (const Value& item : value.items) below = std::max(below, levels_of(item));
  return value.is_list() || value.is_map() ? below + 1 : 0;
}

// A list or map whose end was not read yet.
struct Open {
  Value value;
  YAML::anchor_t anchor;
  std::optional<Value> key{};  // of the next value
  struct Place {
    std::size_t index;
    bool merged;
  };
  std::map<std::string, Place, std::less<>> places{};  // of the keys

  void set(const Value& name, Value member, bool merged) {
    const auto [at, is_new] = places.try_emplace(name.text, Place{value.keys.size(), merged});
    if (is_new) {
      value.keys.push_back({name.text, name.quoted});
      value.items.push_back(std::move(member));
      return;
    }
    Place& place = at->second;
    if (!merged && !std::exchange(place.merged, false)) {
      refuse(name.line, fmt::format("has the key {} twice in a map", in_quotes(name.text)));
    }
    value.items[place.index] = std::move(member);
  }

  void merge(const Value& maps, int line) {
    if (!maps.is_map()) refuse(line, "has a merge key (<<), expected a map or a list of maps");
    for (std::size_t i = 0; i < maps.keys.size(); ++i) {
      const auto& [text, is_quoted] = maps.keys[i];
      set({.kind = Kind::kText, .text = text, .quoted = is_quoted}, maps.items[i], true);
    }
  }
};

class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::size_t repeated_max) : repeated_left_(repeated_max) {}

  std::vector<Value> take() { return std::move(documents_); }

  // yaml-cpp finds documents without end at one place of a text such as ", a".
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos <= std::exchange(start_, mark.pos)) {
      throw Refused{fmt::format("not YAML: line {}: a document cannot begin here", mark.line + 1)};
    }
    anchors_.clear();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add({.line = mark.line + 1}, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark.line + 1, "has an alias within what it stands for");
    check_depth(levels_of(found->second), mark.line + 1);
    Value copy = repeated(found->second, mark.line + 1);
    copy.line = mark.line + 1;
    add(std::move(copy), YAML::NullAnchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool quoted = is_text_tag(mark, tag);
    add({.kind = Kind::kText, .text = text, .quoted = quoted, .line = mark.line + 1}, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(Kind::kList, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(Kind::kMap, mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(); }

 private:
  void open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    is_text_tag(mark, tag);
    check_depth(1, mark.line + 1);
    const bool flow = style == YAML::EmitterStyle::Flow;
    open_.push_back({{.kind = kind, .flow = flow, .line = mark.line + 1}, anchor});
  }

  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(std::move(closed.value), closed.anchor);
  }

  void add(Value value, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = repeated(value, value.line);
    if (open_.empty()) {
      documents_.push_back(std::move(value));
      return;
    }
    Open& parent = open_.back();
    if (parent.value.is_list()) {
      parent.value.items.push_back(std::move(value));
    } else if (parent.key) {
      add_member(parent, *std::exchange(parent.key, std::nullopt), std::move(value));
    } else if (value.is_text()) {
      parent.key = std::move(value);
    } else {
      refuse(value.line, "has a key that is not a text");
    }
  }

  static void add_member(Open& parent, const Value& key, Value value) {
    if (key.text != "<<" || key.quoted) return parent.set(key, std::move(value), false);
    if (!value.is_list()) return parent.merge(value, key.line);
    for (auto map = value.items.rbegin(); map != value.items.rend(); ++map) {
      parent.merge(*map, key.line);
    }
  }

  void check_depth(int levels, int line) const {
    if (static_cast<int>(open_.size()) + levels <= kDepthMax) return;
    refuse(line, fmt::format("is nested deeper than {} levels", kDepthMax));
  }

  Value repeated(const Value& value, int line) {
    const std::size_t cost = cost_of(value);
    if (cost > repeated_left_) refuse(line, "has aliases that repeat too much");
    repeated_left_ -= cost;
    return value;
  }

  std::size_t repeated_left_;
  int start_ = -1;          // of the last document
  std::vector<Open> open_;  // the last one is the innermost
  std::map<YAML::anchor_t, Value> anchors_;
  std::vector<Value> documents_;
};

}  // namespace

Result<std::vector<Value>> read_documents(std::string_view text) try {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  Builder builder(text.size() + kRepeatedMax);
  while (parser.HandleNextDocument(builder)) {
  }
  return builder.take();
} catch (const Refused& refused) {
  return error(refused.sentence);
} catch (const YAML::Exception& failure) {
  return error(fmt::format("not YAML: line {}: {}", failure.mark.line + 1,
                           json_escaped(cut_text(failure.msg, kQuotedValueMax))));
} catch (const std::exception& failure) {
  return error(fmt::format("not YAML: {}", in_quotes(failure.what())));
}

Result<Value> read_document(std::string_view text) {
  auto documents = read_documents(text);
  if (!documents) return documents.error();
  std::erase_if(*documents, [](const Value& document) { return document.is_null(); });
  if (documents->size() > 1) {
    return error(fmt::format("has {} documents, expected one", documents->size()));
  }
  return documents->empty() ? Value() : std::move(documents->front());
}

}  // namespace mgpu::yaml
