// Reads configurations of kube-scheduler.
#include "common/kube/objects/json_value.h"
#include "common/yaml/read.h"
#include "extender/kubectl/doctor/read_facts.h"

namespace mgpu::kubectl {
namespace {

// The extenders of one document that have a bindVerb, by their addresses.
std::vector<std::string> binders_of(const yaml::Value& document) {
  std::vector<std::string> binders;
  if (document.text_of("kind") != "KubeSchedulerConfiguration") return binders;
  for (const yaml::Value& extender : document["extenders"].items) {
    if (!extender.text_of("bindVerb").empty()) binders.push_back(extender.text_of("urlPrefix"));
  }
  return binders;
}

}  // namespace

std::vector<std::string> binding_extenders(const std::string& text) {
  std::vector<std::string> binders;
  if (text.find("KubeSchedulerConfiguration") == std::string::npos) return binders;
  const auto documents = yaml::read_documents(text);
  if (!documents) return binders;  // kube-scheduler says what is wrong with it
  for (const yaml::Value& document : *documents) {
    auto of_document = binders_of(document);
    if (of_document.size() > binders.size()) binders = std::move(of_document);
  }
  return binders;
}

Result<SchedulerConfig> read_scheduler_config(std::string_view config_map) {
  SchedulerConfig config;
  std::string name;
  std::string name_space;
  kube::StringMap data;
  auto read = kube::read_json(
      config_map,
      [&](kube::JsonValue& root) {
        const auto metadata = [&](kube::JsonValue& value) {
          value.read({{"name", name}, {"namespace", name_space}});
        };
        root.read({{"metadata", metadata}, {"data", data}});
      },
      true);
  if (!read) return read.error();
  config.object = name_space + "/" + name;
  for (const auto& [key, text] : data) {
    auto binders = binding_extenders(text);
    if (binders.size() > config.binders.size()) config.binders = std::move(binders);
  }
  return config;
}

}  // namespace mgpu::kubectl
