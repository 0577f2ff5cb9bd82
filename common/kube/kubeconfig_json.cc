#include "common/kube/kubeconfig_json.h"

#include <fmt/format.h>

#include <cmath>

#include "common/base/text.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

// Writes one value; the first problem ends the writing.
class YamlAsJson {
 public:
  void write(const YAML::Node& node, int depth) {
    if (depth > kExecClusterConfigDepthMax) {
      problem_ = fmt::format("is nested deeper than {} levels", kExecClusterConfigDepthMax);
    } else if (text_.size() > kExecClusterConfigBytesMax) {
      problem_ = fmt::format("has over {} bytes", kExecClusterConfigBytesMax);
    }
    if (!problem_.empty()) return;
    if (node.IsScalar()) return write_scalar(node);
    if (node.IsSequence()) return write_sequence(node, depth);
    if (node.IsMap()) return write_map(node, depth);
    text_ += "null";
  }

  Result<std::string> take() {
    if (!problem_.empty()) return error(std::move(problem_));
    return std::move(text_);
  }

 private:
  void write_text(const std::string& text) { text_ += '"' + json_escaped(text) + '"'; }

  // yaml-cpp gives quoted texts the tag "!".
  void write_scalar(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return write_text(text);
    bool truth = false;
    long long whole = 0;
    double number = 0;
    if (YAML::convert<bool>::decode(node, truth)) {
      text_ += truth ? "true" : "false";
    } else if (YAML::convert<long long>::decode(node, whole)) {
      text_ += std::to_string(whole);
    } else if (YAML::convert<double>::decode(node, number) && std::isfinite(number)) {
      text_ += fmt::format("{}", number);
    } else {
      write_text(text);
    }
  }

  void write_sequence(const YAML::Node& node, int depth) {
    text_ += '[';
    for (std::size_t i = 0; i < node.size(); ++i) {
      if (i > 0) text_ += ',';
      write(node[i], depth + 1);
      if (!problem_.empty()) return;
    }
    text_ += ']';
  }

  void write_map(const YAML::Node& node, int depth) {
    text_ += '{';
    bool first = true;
    for (const auto& member : node) {
      if (!member.first.IsScalar()) problem_ = "has a name that is not a text";
      if (!problem_.empty()) return;
      if (!std::exchange(first, false)) text_ += ',';
      write_text(member.first.Scalar());
      text_ += ':';
      write(member.second, depth + 1);
    }
    text_ += '}';
  }

  std::string text_;
  std::string problem_;
};

}  // namespace

Result<std::string> json_of(const YAML::Node& node) {
  YamlAsJson writer;
  writer.write(node, 0);
  return writer.take();
}

}  // namespace mgpu::kube
