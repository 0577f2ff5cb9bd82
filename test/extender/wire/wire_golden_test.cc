// Requests recorded from a real kube-scheduler (test/golden/kube-scheduler-*/README.md).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "extender/wire/wire.h"

namespace mgpu::extender {
namespace {

namespace fs = std::filesystem;

struct Recorded {
  std::string name;
  std::string body;
};

std::vector<Recorded> recorded(const std::string& verb) {
  std::vector<Recorded> requests;
  for (const auto& entry : fs::recursive_directory_iterator(MGPU_SOURCE_DIR "/test/golden")) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(verb) || entry.path().extension() != ".json") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    requests.push_back({entry.path().string(), {std::istreambuf_iterator<char>(stream), {}}});
  }
  return requests;
}

void expect_args(const Recorded& request) {
  auto args = ExtenderArgs::parse(request.body);
  ASSERT_TRUE(args) << request.name << ": " << args.error().message;
  EXPECT_FALSE(args->pod().metadata.uid.empty()) << request.name;
  EXPECT_FALSE(args->pod().containers.empty()) << request.name;
  ASSERT_FALSE(args->node_names().empty()) << request.name;
  EXPECT_TRUE(std::ranges::none_of(args->node_names(), &std::string_view::empty)) << request.name;
}

TEST(RecordedRequests, FilterIsRead) {
  const auto requests = recorded("filter");
  ASSERT_FALSE(requests.empty());
  for (const auto& request : requests) expect_args(request);
}

TEST(RecordedRequests, PrioritizeIsRead) {
  const auto requests = recorded("prioritize");
  ASSERT_FALSE(requests.empty());
  for (const auto& request : requests) expect_args(request);
}

TEST(RecordedRequests, PreemptIsRead) {
  const auto requests = recorded("preempt");
  ASSERT_FALSE(requests.empty());
  for (const auto& request : requests) {
    auto args = read_preemption_args(request.body);
    ASSERT_TRUE(args) << request.name << ": " << args.error().message;
    ASSERT_FALSE(args->nodes.empty()) << request.name;
    for (const auto& node : args->nodes) EXPECT_FALSE(node.victims.empty()) << request.name;
  }
}

TEST(RecordedRequests, BindIsRead) {
  const auto requests = recorded("bind");
  ASSERT_FALSE(requests.empty());
  for (const auto& request : requests) {
    auto args = read_binding_args(request.body);
    ASSERT_TRUE(args) << request.name << ": " << args.error().message;
    EXPECT_FALSE(args->uid.empty() || args->node.empty()) << request.name;
  }
}

}  // namespace
}  // namespace mgpu::extender
