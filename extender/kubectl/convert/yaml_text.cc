#include "extender/kubectl/convert/yaml_text.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <exception>
#include <set>
#include <sstream>

#include "common/base/text.h"
#include "extender/kubectl/convert/limits.h"

namespace mgpu::kubectl::convert {
namespace {

// yaml-cpp gives texts in quotes, and those of blocks, the tag "!", and other values "?" or none.
bool is_in_quotes(const YAML::Node& scalar) {
  return scalar.Tag() == "!";
}

class UnusedEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// Checks that the writer can write what was read.
class Checker {
 public:
  Result<void> check(const YAML::Node& node, int depth = 0) {
    if (depth > kYamlDepthMax) {
      return error(fmt::format("is nested deeper than {} levels", kYamlDepthMax));
    }
    if (++values_ > kYamlValuesMax) {
      return error(fmt::format("has over {} values", kYamlValuesMax));
    }
    const std::string& tag = node.Tag();
    if (!tag.empty() && tag != "?" && tag != "!") {
      return error(fmt::format("has the tag {}; expected values without tags", in_quotes(tag)));
    }
    if (node.IsMap()) return check_map(node, depth);
    if (!node.IsSequence()) return {};
    for (const auto& item : node) {
      if (auto ok = check(item, depth + 1); !ok) return ok.error();
    }
    return {};
  }

 private:
  Result<void> check_map(const YAML::Node& node, int depth) {
    std::set<std::string> keys;
    for (const auto& member : node) {
      if (!member.first.IsScalar()) return error("has a key that is no text");
      const std::string& key = member.first.Scalar();
      if (key == "<<" && !is_in_quotes(member.first)) {
        return error("has the merge key <<; expected the members themselves");
      }
      if (!keys.insert(key).second)
        return error(fmt::format("has the key {} twice", in_quotes(key)));
      if (auto ok = check(member.first, depth + 1); !ok) return ok.error();
      if (auto ok = check(member.second, depth + 1); !ok) return ok.error();
    }
    return {};
  }

  std::size_t values_ = 0;
};

// Whether a block ("|") can have this text without an indicator.
bool suits_a_block(const std::string& text) {
  const auto lines = text.find('\n');
  if (lines == std::string::npos || text.front() == ' ' || text.front() == '\n') return false;
  if (text.back() != '\n' || text[text.size() - 2] == '\n') return false;
  return text.find_first_of("\t\r") == std::string::npos;
}

enum class Blocks { kUse, kAvoid };

class Writer {
 public:
  explicit Writer(Blocks blocks) : blocks_(blocks) { out_.SetIndent(2); }

  void write(const YAML::Node& node, bool flow = false) {
    if (node.IsScalar()) return write_scalar(node, flow);
    if (node.IsMap()) return write_map(node, flow);
    if (node.IsSequence()) return write_sequence(node, flow);
    out_ << YAML::Null;
  }

  std::string take() const { return out_.c_str(); }

 private:
  void write_scalar(const YAML::Node& node, bool flow) {
    const std::string& text = node.Scalar();
    if (!is_in_quotes(node)) {
      out_ << text;
    } else if (blocks_ == Blocks::kUse && !flow && suits_a_block(text)) {
      out_ << YAML::Literal << text;
    } else {
      out_ << YAML::DoubleQuoted << text;
    }
  }

  void write_map(const YAML::Node& node, bool flow) {
    const bool inner = flow || node.Style() == YAML::EmitterStyle::Flow || node.size() == 0;
    if (inner) out_ << YAML::Flow;
    out_ << YAML::BeginMap;
    for (const auto& member : node) {
      out_ << YAML::Key;
      write_scalar(member.first, true);
      out_ << YAML::Value;
      write(member.second, inner);
    }
    out_ << YAML::EndMap;
  }

  void write_sequence(const YAML::Node& node, bool flow) {
    const bool inner = flow || node.Style() == YAML::EmitterStyle::Flow || node.size() == 0;
    if (inner) out_ << YAML::Flow;
    out_ << YAML::BeginSeq;
    for (const auto& item : node) write(item, inner);
    out_ << YAML::EndSeq;
  }

  YAML::Emitter out_;
  Blocks blocks_;
};

bool is_same(const YAML::Node& a, const YAML::Node& b) {
  if (a.Type() != b.Type() || a.size() != b.size()) return false;
  if (a.IsScalar()) return a.Scalar() == b.Scalar() && is_in_quotes(a) == is_in_quotes(b);
  auto other = b.begin();
  for (const auto& member : a) {
    const bool same =
        a.IsMap() ? is_same(member.first, other->first) && is_same(member.second, other->second)
                  : is_same(member, *other);
    if (!same) return false;
    ++other;
  }
  return true;
}

// Empty if the text is not read as the same document.
std::string write_document(const YAML::Node& document, Blocks blocks) {
  Writer writer(blocks);
  writer.write(document);
  const std::string text = writer.take();
  if (has_too_many_documents(text)) return "";
  const auto read = YAML::LoadAll(text);
  return read.size() == 1 && is_same(document, read.front()) ? text : "";
}

}  // namespace

bool has_too_many_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  UnusedEvents unused;
  for (int count = 0; count <= kDocumentsMax; ++count) {
    if (!parser.HandleNextDocument(unused)) return false;
  }
  return true;
}

Result<std::vector<YAML::Node>> read_documents(const std::string& text) try {
  if (has_too_many_documents(text)) {
    return error(fmt::format("has over {} documents, or is not YAML", kDocumentsMax));
  }
  auto documents = YAML::LoadAll(text);
  Checker checker;
  for (const YAML::Node& document : documents) {
    if (auto ok = checker.check(document); !ok) return ok.error();
  }
  return documents;
} catch (const std::exception& failure) {
  return error("is not YAML: " + in_quotes(failure.what()));
}

Result<std::string> write_documents(const std::vector<YAML::Node>& documents) try {
  std::string all;
  for (const YAML::Node& document : documents) {
    if (document.IsNull()) continue;
    std::string text = write_document(document, Blocks::kUse);
    if (text.empty()) text = write_document(document, Blocks::kAvoid);
    if (text.empty()) return error("has a value that cannot be written without a change");
    if (!all.empty()) all += "---\n";
    all += text + "\n";
  }
  return all;
} catch (const std::exception& failure) {
  return error("cannot be written: " + in_quotes(failure.what()));
}

YAML::Node member_of(const YAML::Node& node, const std::string& name) {
  if (!node.IsDefined() || !node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
  for (const auto& member : node) {
    if (member.first.Scalar() == name) return member.second;
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

std::string text_of(const YAML::Node& node, const std::string& name) {
  const YAML::Node found = member_of(node, name);
  return found.IsDefined() && found.IsScalar() ? found.Scalar() : "";
}

YAML::Node quoted(const std::string& text) {
  YAML::Node node(text);
  node.SetTag("!");
  return node;
}

}  // namespace mgpu::kubectl::convert
