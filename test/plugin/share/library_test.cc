// The library in the place of libcuda.so.1, as programs use it: over fake_driver.cc, which has two
// cards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "plugin/share/page.h"
#include "test/plugin/share/programs.h"
#include "test/plugin/share/share_folder.h"

namespace mgpu::share {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class LibraryTest : public testing::TestWithParam<const char*> {
 protected:
  // The folder of the pages of a card, as the library finds it from `folder`.
  std::string pages_of(int card) const {
    PageValues values;
    std::ranges::fill(values.uuid, static_cast<std::uint8_t>(card + 1));
    char name[41];
    write_uuid(values.uuid, name);
    return folder.path() + "/share/" + name;
  }

  void make_pages_of(int card) const {
    PageValues values{.limit_bytes = 1024 * kMiB, .context_bytes = 100 * kMiB};
    std::ranges::fill(values.uuid, static_cast<std::uint8_t>(card + 1));
    std::filesystem::create_directories(pages_of(card));
    ASSERT_EQ(make_pages(pages_of(card).c_str(), values), nullptr);
  }

  Output run_client(const std::string& arguments) const {
    return run("cd " + folder.path() +
               " && LD_LIBRARY_PATH=" MGPU_SHARE_LIBRARIES " " MGPU_SHARE_LIBRARIES "/" +
               arguments);
  }

  ShareFolder folder;
};

TEST_P(LibraryTest, HoldsTheLimit) {
  make_pages_of(0);
  make_pages_of(1);
  const Output output = run_client(std::string("share_client ") + GetParam());
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_THAT(output.text, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Cases, LibraryTest,
                         testing::Values("see_the_share", "linear", "small_pieces",
                                         "other_allocations", "virtual_memory", "held_elsewhere",
                                         "exported", "modules", "streams", "libraries_that_stay",
                                         "other_process_ids", "local_memory",
                                         "managed_on_two_cards", "pools", "pool_of_a_stream",
                                         "capture_that_ends", "callbacks_and_waits", "threads",
                                         "graphs", "contexts", "processes", "names"));

TEST_F(LibraryTest, ServesProgramsThatAreLinkedWithIt) {
  make_pages_of(0);
  make_pages_of(1);
  EXPECT_EQ(run_client("share_linked").status, 0);
}

TEST_F(LibraryTest, RefusesToRunWithoutALimit) {
  const auto refused = [&] {
    const Output output = run_client("share_client refused");
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_EQ(std::ranges::count(output.text, '\n'), 1) << output.text;
    return output.text;
  };
  EXPECT_THAT(refused(), HasSubstr("is not there"));
  make_pages_of(0);
  EXPECT_THAT(refused(), HasSubstr("GPU-02020202-0202-0202-0202-020202020202, is not there"));
  make_pages_of(1);
  const std::string folder_of_pages = std::filesystem::relative(pages_of(1), folder.path());
  folder.overwrite(folder_of_pages + "/usage", 0, "none");
  EXPECT_THAT(refused(), HasSubstr("is not a page of mgpu. Restart the container"));
  folder.overwrite(folder_of_pages + "/usage", 0, "MGPUPAGE\x02");
  EXPECT_THAT(refused(), HasSubstr("another version"));
}

// --- the file ------------------------------------------------------------------------------------

TEST(LibraryFile, ShowsTheDriversFunctionsAndNothingElse) {
  std::set<std::string> shown;
  std::smatch match;
  const std::regex defined(R"((FUNC|OBJECT|NOTYPE)\s+(GLOBAL|WEAK)\s+DEFAULT\s+[0-9]+\s+(\S+))");
  for (const std::string& line : lines_of_symbols(MGPU_CUDA_LIBRARY)) {
    if (std::regex_search(line, match, defined)) shown.insert(match[3]);
  }
  const std::set<std::string> functions = {
#define DRIVER_FUNCTION(name, kind) #name,
#include "plugin/share/driver_functions.def"
#undef DRIVER_FUNCTION
  };
  EXPECT_EQ(shown, functions);
}

TEST(LibraryFile, NeedsNothingNewerThanGlibc217) {
  expect_old_c_library(MGPU_CUDA_LIBRARY);
  const std::string headers = run("readelf -Wd " MGPU_CUDA_LIBRARY).text;
  EXPECT_THAT(headers, HasSubstr("Library soname: [libcuda.so.1]"));
  EXPECT_THAT(headers, testing::Not(HasSubstr("driver")));
}

}  // namespace
}  // namespace mgpu::share
