// The output of `kubectl mgpu doctor`, against the files of test/golden/doctor.
#include "extender/kubectl/doctor/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/base/files.h"
#include "extender/kubectl/doctor/checks.h"
#include "test/extender/kubectl/doctor/good_facts.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using testing::HasSubstr;
using testing::Not;

// One of everything that can be wrong.
Facts broken_facts() {
  Facts facts = good_facts();
  facts.clock_difference = std::chrono::seconds(-95);
  facts.rights = std::vector{Right{"kube-system/mgpu-extender", "create pods/binding", false}};
  facts.policies = std::set<std::string>{"mgpu-cards-of-bound-pods"};
  facts.extender_pods = std::vector{program_pod("mgpu-extender-1", "n1")};
  facts.replicas.pop_back();
  facts.replicas[0].readiness = Readiness{false, {"lease kube-system/mgpu-extender"}, {}, "", {}};
  facts.replicas[0].metrics = MetricSamples{
      {"mgpu_extender_certificate_expiry_timestamp_seconds", {{"certificate", "server"}}, 1.7e9}};
  facts.replicas[0].version = std::string("0.2.0");
  facts.lease = LeaseFacts{"somebody-else", {}, {}};
  facts.slices = std::vector<SliceFacts>{};
  facts.waiting_pods = std::vector{gpu_pod("waits", "", {})};
  facts.bound_pods = {Missing::kForbidden,
                      "list pods with a node: HTTP 403 Forbidden: pods is forbidden"};
  std::vector<CheckedNode> nodes;
  for (const char* name : {"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7"}) {
    nodes.push_back(gpu_node(name));
    nodes.back().allocatable.clear();
  }
  nodes[0].conditions[0] = {"MGPUReady", "False", "NoDriver", "libcuda.so.1 was not found"};
  facts.nodes = nodes;
  facts.gates = {Missing::kForbidden, "get the configuration of a kubelet: HTTP 403"};
  return facts;
}

std::string golden(const std::string& name) {
  const auto text = read_file(MGPU_SOURCE_DIR "/test/golden/doctor/" + name, 1 << 20);
  return text ? *text : text.error().message;
}

TEST(DoctorReport, IsATable) {
  EXPECT_EQ(report_table(run_checks(good_facts()), false), golden("good.txt"));
  EXPECT_EQ(report_table(run_checks(broken_facts()), false), golden("broken.txt"));
}

TEST(DoctorReport, IsJson) {
  EXPECT_EQ(report_json(run_checks(good_facts())), golden("good.json"));
  EXPECT_EQ(report_json(run_checks(broken_facts())), golden("broken.json"));
}

TEST(DoctorReport, HasColorsOnlyWhereTheyAreShown) {
  const auto reports = run_checks(broken_facts());
  EXPECT_THAT(report_table(reports, true), HasSubstr("\x1b[31merror"));
  EXPECT_THAT(report_table(reports, false), Not(HasSubstr("\x1b")));
}

// A text with everything that changes how other text is shown: controls of the terminal, marks of
// direction, markup, bytes that are not UTF-8, and 253 characters.
std::string hostile() {
  return "\x1b[2J\r\n<script>\u202eevil\u2066\u200b\x9b\xff" + std::string(253, 'x');
}

Facts hostile_facts() {
  Facts facts = broken_facts();
  facts.lease = LeaseFacts{hostile(), {}, {}};
  auto nodes = facts.nodes.value();
  nodes[0].name = hostile();
  nodes[1].conditions[0] = {"MGPUReady", "False", hostile(), hostile()};
  facts.nodes = nodes;
  facts.plugin_pods = std::vector{program_pod("mgpu-device-plugin-9", nodes[1].name)};
  GpuPod pod = gpu_pod(hostile(), "", {});
  pod.unscheduled_reason = "SchedulerError";
  pod.unscheduled_message = hostile();
  facts.waiting_pods = std::vector{pod};
  facts.replicas[0].readiness =
      Readiness{false, {hostile()}, {hostile()}, hostile(), {{hostile(), 1}}};
  facts.replicas[0].version = hostile();
  facts.unreadable = {hostile()};
  return facts;
}

TEST(DoctorReport, ShowsHostileTextHarmlessly) {
  const auto reports = run_checks(hostile_facts());
  const std::string table = report_table(reports, false);
  for (const char c : table) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  for (const char* mark : {"\u202e", "\u2066", "\u200b", "\xff", "\x9b"}) {
    EXPECT_THAT(table, Not(HasSubstr(mark)));
  }
  EXPECT_THAT(table, HasSubstr("\\u{1b}[2J\\u{d}\\u{a}<script>\\u{202e}evil"));
  EXPECT_THAT(table, HasSubstr(std::string(253, 'x')));
  // A line is a finding, a remedy, the head or the summary: no text from outside adds one.
  std::size_t lines = 3;
  for (const CheckReport& report : reports) {
    for (const Finding& finding : report.findings) lines += finding.remedy.empty() ? 1 : 2;
  }
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n')), lines);
}

TEST(DoctorReport, IsAsciiJsonWhateverTheNames) {
  const std::string json = report_json(run_checks(hostile_facts()));
  for (const char c : json) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F));
  EXPECT_TRUE(nlohmann::json::accept(json));
}

TEST(DoctorReport, CutsALongSentence) {
  const std::vector<CheckReport> reports = {
      {"nodes", {{Level::kError, std::string(100'000, 'a'), std::string(100'000, 'b')}}}};
  EXPECT_LT(report_table(reports, false).size(), 10'000U);
}

}  // namespace
}  // namespace mgpu::test
