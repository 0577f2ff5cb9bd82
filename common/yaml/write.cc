#include "common/yaml/write.h"

#include <yaml-cpp/yaml.h>

#include <exception>

#include "common/base/text.h"
#include "common/yaml/read.h"

namespace mgpu::yaml {
namespace {

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
  Writer(const Value& document, Blocks blocks)
      : quotes_keys_(!document.keys.empty() && document.keys.front().quoted), blocks_(blocks) {
    out_.SetIndent(2);
  }

  void write(const Value& value, bool flow = false) {
    if (value.is_null()) {
      out_ << YAML::Null;
    } else if (value.is_text()) {
      write_text(value.text, value.quoted, flow);
    } else {
      write_items(value, flow || value.flow || value.items.empty());
    }
  }

  std::string take() const { return out_.c_str(); }

 private:
  void write_text(const std::string& text, bool quoted, bool flow) {
    if (quoted && blocks_ == Blocks::kUse && !flow && suits_a_block(text)) {
      out_ << YAML::Literal;
    } else if (quoted) {
      out_ << YAML::DoubleQuoted;
    }
    out_ << text;
  }

  void write_items(const Value& value, bool flow) {
    if (flow) out_ << YAML::Flow;
    if (value.is_list()) out_ << YAML::BeginSeq;
    if (value.is_map()) out_ << YAML::BeginMap;
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      if (value.is_map()) {
        out_ << YAML::Key;
        write_text(value.keys[i].text, quotes_keys_ || value.keys[i].quoted, true);
        out_ << YAML::Value;
      }
      write(value.items[i], flow);
    }
    if (value.is_list()) out_ << YAML::EndSeq;
    if (value.is_map()) out_ << YAML::EndMap;
  }

  YAML::Emitter out_;
  bool quotes_keys_;
  Blocks blocks_;
};

// Empty if the text is not read as the same document.
std::string write_document(const Value& document, Blocks blocks) {
  Writer writer(document, blocks);
  writer.write(document);
  std::string text = writer.take();
  const auto read = read_documents(text);
  return read && read->size() == 1 && read->front() == document ? text : "";
}

}  // namespace

Result<std::string> write_documents(const std::vector<Value>& documents) try {
  std::string all;
  for (const Value& document : documents) {
    if (document.is_null()) continue;
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

}  // namespace mgpu::yaml
