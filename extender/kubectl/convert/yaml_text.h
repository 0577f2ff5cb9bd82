// YAML documents that are read, changed and written again. Pure.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "common/base/result.h"

namespace mgpu::kubectl::convert {

// Whether the text has more documents than a file may have. It is checked before YAML::LoadAll(),
// which finds an infinite number of documents in a text such as ", a".
bool has_too_many_documents(const std::string& text);

// Errors: not YAML, over kYamlValuesMax values or kYamlDepthMax levels, a key twice, a key that is
// no text, an explicit tag, or a merge key ("<<"), which yaml-cpp does not resolve.
Result<std::vector<YAML::Node>> read_documents(const std::string& text);

// Documents that read_documents() has returned. Comments are lost, and aliases are replaced by what
// they stand for. Errors: the text would not be read as the same documents.
Result<std::string> write_documents(const std::vector<YAML::Node>& documents);

// The member of a map; undefined where `node` is no map, or has no such member.
YAML::Node member_of(const YAML::Node& node, const std::string& name);
// The text of a scalar member; empty for none.
std::string text_of(const YAML::Node& node, const std::string& name);
// A scalar in quotes.
YAML::Node quoted(const std::string& text);

}  // namespace mgpu::kubectl::convert
