// The library in the place of libnvidia-ml.so.1, as programs use it: over the stand-in of NVML,
// with two cards of which the first one has pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "plugin/share/account.h"
#include "test/plugin/share/programs.h"
#include "test/plugin/share/share_folder.h"

namespace mgpu::share {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kWholeCard[] = "0: 32510 400 32110, 0: 32510 0 0 32510, 25\n";

class NvmlTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(pages);
    PageValues values{.limit_bytes = 1024 * kMiB};
    std::ranges::copy(kCard, values.uuid);
    ASSERT_EQ(make_pages(pages.c_str(), values), nullptr);
    std::ofstream(folder.path() + "/nvml")
        << "card GPU-abcd0102-0304-0506-0708-090a0b0c0d0e used=9000 reserved=500\n"
        << "card GPU-00000000-0000-0000-0000-000000000002\n";
  }

  Output run_program(const std::string& program) const {
    return run("cd " + folder.path() + " && MGPU_FAKE_NVML=" + folder.path() +
               "/nvml LD_LIBRARY_PATH=" MGPU_SHARE_LIBRARIES " " MGPU_SHARE_LIBRARIES "/" +
               program);
  }

  ShareFolder folder;
  std::string pages = folder.path() + "/share/GPU-abcd0102-0304-0506-0708-090a0b0c0d0e";
};

TEST_P(NvmlTest, TellsOfTheShare) {
  Account account;
  ASSERT_EQ(account.attach(pages.c_str(), kCard), nullptr);
  ASSERT_TRUE(account.reserve(300 * kMiB));
  EXPECT_EQ(run_program(GetParam()).text,
            std::string("0: 1024 300 724, 0: 1024 0 300 724, 25\n") + kWholeCard);
  account.charge(1000 * kMiB);
  EXPECT_EQ(run_program(GetParam()).text,
            std::string("0: 1024 1024 0, 0: 1024 0 1024 0, 25\n") + kWholeCard);
}

INSTANTIATE_TEST_SUITE_P(Ways, NvmlTest,
                         testing::Values("share_nvml_client name", "share_nvml_client path",
                                         "share_nvml_client deepbind", "share_nvml_client global",
                                         "share_nvml_client namespace", "share_nvml_linked"));

TEST_F(NvmlTest, TellsOfTheCardWhereItIsSmallerThanTheShare) {
  std::ofstream(folder.path() + "/nvml")
      << "card GPU-abcd0102-0304-0506-0708-090a0b0c0d0e memory=1000\n";
  EXPECT_EQ(run_program("share_nvml_client").text, "0: 1000 0 1000, 0: 1000 0 0 1000, 25\n");
}

TEST_F(NvmlTest, PassesErrorsOfTheDriverOn) {
  std::ofstream(folder.path() + "/nvml", std::ios::app)
      << "fail nvmlDeviceGetMemoryInfo 15\nfail nvmlDeviceGetUUID 3\n";
  EXPECT_THAT(run_program("share_nvml_client").text, HasSubstr("15: "));
  EXPECT_THAT(run_program("share_nvml_client").text, HasSubstr(", 3: "));
}

TEST_F(NvmlTest, TellsNothingOfACardWhosePageIsDamaged) {
  folder.overwrite("share/GPU-abcd0102-0304-0506-0708-090a0b0c0d0e/usage", 0, "none");
  const std::string text = run_program("share_nvml_client").text;
  EXPECT_THAT(text, HasSubstr("999: "));
  EXPECT_THAT(text, HasSubstr(kWholeCard));
  EXPECT_THAT(text, HasSubstr("090a0b0c0d0e, is not a page of mgpu. Restart the container"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
  std::filesystem::remove(pages + "/limits");
  EXPECT_THAT(run_program("share_nvml_client").text, HasSubstr("is not there"));
}

TEST_F(NvmlTest, TellsOfWholeCardsWhereNothingIsShared) {
  std::filesystem::remove_all(folder.path() + "/share");
  EXPECT_THAT(run_program("share_nvml_client").text, HasSubstr(kWholeCard));
  EXPECT_THAT(run_program("share_nvml_client").text, Not(HasSubstr("mgpu")));
}

TEST(NvmlFile, NeedsAnOldCLibraryAndTheDriversOwn) {
  expect_old_c_library(MGPU_NVML_LIBRARY);
  const std::string headers = run("readelf -Wd " MGPU_NVML_LIBRARY).text;
  EXPECT_THAT(headers, HasSubstr("Library soname: [libnvidia-ml.so.1]"));
  EXPECT_THAT(headers, HasSubstr("Shared library: [/usr/lib/mgpu/libmgpu-nvml-driver.so]"));
}

}  // namespace
}  // namespace mgpu::share
