// The fields of one YAML map, read with one sentence for the first thing that is wrong.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mgpu::plugin {

// What was wrong first; once something was, reading on is harmless and says nothing more.
class Problem {
 public:
  void note(std::string sentence) {
    if (sentence_.empty()) sentence_ = std::move(sentence);
  }
  bool none() const { return sentence_.empty(); }
  const std::string& sentence() const { return sentence_; }

 private:
  std::string sentence_;
};

// Fields that are absent or null are empty; where they must be there, that is a problem.
class YamlFields {
 public:
  // `path` names the map in sentences: "cards[1]", or nothing for the whole file. A problem where
  // `node` is no map, or has a field that is not one of `known`, or has one twice.
  YamlFields(const YAML::Node& node, std::string path, std::vector<std::string_view> known,
             Problem& problem);

  bool has(std::string_view name) const;
  // 1 .. `longest` bytes without control characters.
  std::string text(std::string_view name, std::size_t longest) const;
  std::int64_t whole(std::string_view name, std::int64_t least, std::int64_t most) const;
  double number(std::string_view name, double least, double most) const;
  bool truth(std::string_view name) const;
  // An absolute path without "..".
  std::string absolute_path(std::string_view name) const;
  // The entries of a list of at most `most`.
  std::vector<YAML::Node> list(std::string_view name, std::size_t most) const;
  // An undefined node where it is absent.
  YAML::Node child(std::string_view name) const;
  // "cards[1].name"
  std::string place(std::string_view name) const;
  std::string place(std::string_view name, std::size_t entry) const;
  Problem& problem() const { return problem_; }

 private:
  // A problem where the field is absent or has structure.
  std::optional<std::string> scalar(std::string_view name, std::string_view expected) const;

  YAML::Node node_;
  std::string path_;
  Problem& problem_;
};

// A problem, named by `place`, where `path` is not absolute or has "..".
void check_absolute_path(const std::string& path, const std::string& place, Problem& problem);

}  // namespace mgpu::plugin
