#include "bench/gpu/nvidia_smi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mgpu::gpu_trial {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

// A shortened output of nvidia-smi, with the names and levels of drivers 550 and newer.
constexpr char kReport[] = R"(<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Sun Nov 22 04:00:00 2026</timestamp>
  <driver_version>580.95.05</driver_version>
  <cuda_version>13.0</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA H200</product_name>
    <uuid>GPU-a</uuid>
    <minor_number>3</minor_number>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <fb_memory_usage><total>143771 MiB</total><reserved>612 MiB</reserved></fb_memory_usage>
    <ecc_errors/>
    <processes>
      <process_info>
        <gpu_instance_id>N/A</gpu_instance_id>
        <pid>4711</pid>
        <type>M+C</type>
        <process_name>python3</process_name>
        <used_memory>756 MiB</used_memory>
      </process_info>
    </processes>
  </gpu>
</nvidia_smi_log>
)";

TEST(SmiTexts, HaveAmountsWithTheirUnits) {
  EXPECT_EQ(amount_in("143771 MiB", "MiB"), 143771);
  EXPECT_EQ(amount_in("97 %", "%"), 97);
  for (const char* const text : {"", "N/A", "97", "97 MiB", "97 % ", "MiB", "-", "9.7 %"}) {
    EXPECT_EQ(amount_in(text, "%"), std::nullopt) << text;
  }
}

TEST(SmiTexts, HaveTheValueOfACard) {
  const std::string lines = "GPU-a, 9.0\nGPU-ab, 8.6\n";
  EXPECT_EQ(value_of_card(lines, "GPU-a"), "9.0");
  EXPECT_EQ(value_of_card(lines, "GPU-ab"), "8.6");
  EXPECT_EQ(value_of_card(lines, "GPU-b"), "");
}

TEST(SmiReport, HasTheVersionsAndTheCardsByUuid) {
  const auto report = parse_smi_report(kReport);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->driver, "580.95.05");
  EXPECT_EQ(report->cuda, "13.0");
  ASSERT_THAT(report->cards, SizeIs(1));
  EXPECT_EQ(report->cards.begin()->first, "GPU-a");
}

TEST(SmiReport, NamesFieldsByTheirPath) {
  const SmiCard card = parse_smi_report(kReport)->cards.at("GPU-a");
  EXPECT_EQ(card.field("product_name"), "NVIDIA H200");
  EXPECT_EQ(card.field("fb_memory_usage.reserved"), "612 MiB");
  EXPECT_EQ(card.field("mig_mode.pending_mig"), "Disabled");
  EXPECT_EQ(card.field("reserved"), "");
}

TEST(SmiReport, ListsProcesses) {
  const auto processes = parse_smi_report(kReport)->cards.at("GPU-a").processes;
  ASSERT_THAT(processes, SizeIs(1));
  EXPECT_EQ(processes[0].pid, 4711);
  EXPECT_EQ(processes[0].type, "M+C");
  EXPECT_EQ(processes[0].name, "python3");
  EXPECT_EQ(processes[0].memory, "756 MiB");
}

TEST(SmiReport, RejectsOtherTexts) {
  for (const char* const text :
       {"", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "<html></html>", "<nvidia_smi_log><gpu>"}) {
    const auto report = parse_smi_report(text);
    ASSERT_FALSE(report) << text;
    EXPECT_THAT(report.error().message, HasSubstr("nvidia-smi printed no report"));
  }
}

}  // namespace
}  // namespace mgpu::gpu_trial
