#include "plugin/cards/nvml/nvml_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin::nvml {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string problem_of(const std::vector<std::string>& names) {
  const auto library = Library::open(names);
  return library ? "none" : library.error().message;
}

TEST(NvmlLibrary, BindsAllFunctionsOfACurrentDriver) {
  const auto library = Library::open({beside_the_test("fake_nvml.so")});
  ASSERT_TRUE(library) << library.error().message;
  const Functions& f = (*library)->functions();
  EXPECT_TRUE(f.has_events());
  EXPECT_NE(f.memory_v2, nullptr);
  EXPECT_EQ(f.compute.entry_bytes, sizeof(ProcessInfo));
  EXPECT_EQ(f.graphics.entry_bytes, sizeof(ProcessInfo));
  EXPECT_TRUE(f.mps);
}

TEST(NvmlLibrary, BindsTheMemoryLimitsOfR615) {
  const auto library = Library::open({beside_the_test("fake_nvml_r615.so")});
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_TRUE((*library)->functions().has_memory_limits());
  EXPECT_FALSE(
      (*Library::open({beside_the_test("fake_nvml.so")}))->functions().has_memory_limits());
}

TEST(NvmlLibrary, AcceptsAnOldDriverWithoutNewerFunctions) {
  const auto library = Library::open({beside_the_test("fake_nvml_old.so")});
  ASSERT_TRUE(library) << library.error().message;
  const Functions& f = (*library)->functions();
  EXPECT_FALSE(f.has_events());
  EXPECT_EQ(f.memory_v2, nullptr);
  EXPECT_EQ(f.mig_mode, nullptr);
  EXPECT_TRUE(f.compute);
  EXPECT_EQ(f.compute.entry_bytes, sizeof(ProcessInfoV1));
  EXPECT_FALSE(f.graphics);
}

TEST(NvmlLibrary, OpensTheFirstLibraryThatCanBeLoaded) {
  const std::string there = beside_the_test("fake_nvml.so");
  const auto library = Library::open({"libno-such.so.1", "/nonexistent/x.so", there});
  ASSERT_TRUE(library);
  EXPECT_EQ((*library)->name(), there);
}

TEST(NvmlLibrary, ReportsTheLibrariesThatWereTried) {
  EXPECT_THAT(problem_of({"libno-such.so.1", "/nonexistent/x.so"}),
              AllOf(StartsWith("no NVML on this node, is an NVIDIA driver installed? looked for "),
                    HasSubstr("libno-such.so.1: cannot open"), HasSubstr("/nonexistent/x.so: ")));
  EXPECT_THAT(problem_of({}), HasSubstr("looked for nothing"));
}

TEST(NvmlLibrary, ReportsALibraryThatIsNotNvml) {
  const std::string broken = beside_the_test("fake_nvml_broken.so");
  EXPECT_EQ(problem_of({broken}), "NVML " + broken +
                                      " has no nvmlDeviceGetMinorNumber: it is too old or is not "
                                      "NVML");
  EXPECT_THAT(problem_of({"libm.so.6"}), HasSubstr("has no nvmlInit_v2"));
  EXPECT_THAT(problem_of({"/proc/self/environ"}), StartsWith("no NVML on this node"));
}

TEST(NvmlLibrary, DescribesCodes) {
  const auto library = Library::open({beside_the_test("fake_nvml.so")});
  ASSERT_TRUE(library);
  EXPECT_EQ((*library)->describe(kGpuIsLost), "GPU is lost (15)");
  EXPECT_THAT(advice_for(kDriverNotLoaded), HasSubstr("kernel module loaded"));
  EXPECT_THAT(advice_for(kVersionMismatch), HasSubstr("different drivers"));
  EXPECT_EQ(advice_for(kUnknown), "");
}

}  // namespace
}  // namespace mgpu::plugin::nvml
