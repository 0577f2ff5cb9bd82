// The cases that the policies of the chart are tested with, too
// (test/cluster/chart_migration_test.go).
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cstdlib>

#include "common/base/files.h"
#include "common/contract/gpu_request.h"
#include "extender/kubectl/convert/manifests.h"

namespace mgpu::test {
namespace {

using kubectl::convert::convert_manifests;
using kubectl::convert::ConvertOptions;

const std::string kGolden = std::string(MGPU_SOURCE_DIR) + "/test/golden/migration/";

ConvertOptions options_named(const std::string& name) {
  ConvertOptions options{.contract = *Contract::for_domain(kDefaultResourceDomain)};
  if (name == "chosen") {
    options.hami_core = 10;
    options.hami_card_memory_mib = 16001;
    options.aliyun_core = 10;
    options.aliyun_unit_mib = 1;
  } else if (name == "gib") {
    options.aliyun_core = 10;
  }
  return options;
}

// The policies name values of the chart where the command names flags.
std::string with_flags(std::string sentence) {
  for (const auto& [value, flag] :
       {std::pair("migration.hami.core", "--hami-core"),
        std::pair("migration.hami.cardMemoryMiB", "--hami-card-memory-mib"),
        std::pair("migration.aliyun.core", "--aliyun-core")}) {
    const auto at = sentence.find(value);
    if (at == std::string::npos || !sentence.ends_with(value)) continue;
    sentence.replace(at, std::string::npos, flag);
  }
  return sentence;
}

std::string text_or(const YAML::Node& node, const char* name, const std::string& otherwise = "") {
  return node[name].IsDefined() ? node[name].as<std::string>() : otherwise;
}

// The pod of a case that has no file.
YAML::Node pod_with(const YAML::Node& limits, const YAML::Node& labels,
                    const YAML::Node& annotations) {
  YAML::Node pod = YAML::Load("{apiVersion: v1, kind: Pod, metadata: {name: app}}");
  if (labels.IsDefined()) pod["metadata"]["labels"] = labels;
  if (annotations.IsDefined()) pod["metadata"]["annotations"] = annotations;
  YAML::Node container = YAML::Load("{name: app, image: busybox}");
  if (limits.IsDefined() && limits.size() > 0) container["resources"]["limits"] = limits;
  pod["spec"]["containers"].push_back(container);
  return pod;
}

std::string written(const YAML::Node& node) {
  YAML::Emitter out;
  out << node;
  return out.c_str();
}

using Texts = std::map<std::string, std::string>;

Texts texts_of(const YAML::Node& node) {
  return node.IsDefined() && node.IsMap() ? node.as<Texts>() : Texts();
}

// Checks that the extender reads the request of the only container.
void check_contract(const YAML::Node& pod) {
  kube::Pod read;
  for (const auto& [key, value] : texts_of(pod["metadata"]["annotations"])) {
    read.metadata.annotations[key] = value;
  }
  kube::Container container{.name = "app"};
  for (const auto& [name, amount] : texts_of(pod["spec"]["containers"][0]["resources"]["limits"])) {
    container.limits[name] = amount;
  }
  read.containers.push_back(container);
  const auto contract = Contract::for_domain(kDefaultResourceDomain);
  const auto request = read_containers(read, *contract, MiB());
  ASSERT_TRUE(request) << request.error().message;
}

void check_result(const YAML::Node& one, const std::string& text) {
  const YAML::Node pod = YAML::Load(text);
  Texts limits;
  const YAML::Node want = one["want"];
  const std::string core = text_or(want, "core", "0");
  const std::string memory = text_or(want, "memory", "0");
  if (core != "0") limits["vke.volcengine.com/mgpu-core"] = core;
  if (memory != "0") limits["vke.volcengine.com/mgpu-memory"] = memory;
  EXPECT_EQ(texts_of(pod["spec"]["containers"][0]["resources"]["limits"]), limits);
  EXPECT_EQ(texts_of(pod["metadata"]["annotations"]), texts_of(want["annotations"]));
  EXPECT_EQ(texts_of(pod["metadata"]["labels"]), texts_of(one["labels"]));
  // More memory than any card has is a reason of the extender.
  if (std::stoll(memory) <= kCardMemoryMiBMax) check_contract(pod);
}

void check_file(const std::string& name, const std::string& text) {
  const std::string path = kGolden + "files/" + name + ".want.yaml";
  if (std::getenv("MGPU_WRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(path, text, Durability::kProcess));
  }
  const auto want = read_file(path, 1 << 20);
  ASSERT_TRUE(want) << want.error().message;
  EXPECT_EQ(text, *want);
}

void check_case(const YAML::Node& one) {
  const std::string file = text_or(one, "file");
  std::string text = written(pod_with(one["limits"], one["labels"], one["annotations"]));
  if (!file.empty()) {
    const auto read = read_file(kGolden + "files/" + file + ".yaml", 1 << 20);
    ASSERT_TRUE(read) << read.error().message;
    text = *read;
  }
  const ConvertOptions options = options_named(text_or(one, "settings"));
  const auto converted = convert_manifests(text, options);
  ASSERT_TRUE(converted) << converted.error().message;
  if (one["refused"].IsDefined()) {
    ASSERT_EQ(converted->refusals.size(), 1) << converted->text;
    EXPECT_TRUE(
        converted->refusals[0].ends_with(": " + with_flags(one["refused"].as<std::string>())))
        << converted->refusals[0];
    EXPECT_EQ(converted->text, text);
    return;
  }
  EXPECT_EQ(converted->refusals, std::vector<std::string>());
  file.empty() ? check_result(one, converted->text) : check_file(file, converted->text);
  const auto again = convert_manifests(converted->text, options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->text, converted->text);
  EXPECT_EQ(again->changes, std::vector<std::string>());
}

TEST(MigrationCases, AreConvertedOrRefusedAsByThePolicies) {
  const YAML::Node cases = YAML::LoadFile(kGolden + "cases.yaml");
  ASSERT_GT(cases.size(), 70);
  for (const auto& one : cases) {
    SCOPED_TRACE(one["name"].as<std::string>());
    check_case(one);
  }
}

}  // namespace
}  // namespace mgpu::test
