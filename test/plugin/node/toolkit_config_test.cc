#include "plugin/node/toolkit_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "plugin/node/limits.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kVariable = "accept-nvidia-visible-devices-envvar-when-unprivileged";
const std::string kVolumes = "accept-nvidia-visible-devices-as-volume-mounts";

TEST(ToolkitConfig, ReadsItsSettings) {
  struct Case {
    std::string text;
    ToolkitSettings settings;
  };
  const Case cases[] = {
      {"", {.by_environment = true, .by_mounts = false}},
      {kVariable + " = false\n", {.by_environment = false, .by_mounts = false}},
      {kVariable + "=true\n", {.by_environment = true, .by_mounts = false}},
      {kVolumes + " = true", {.by_environment = true, .by_mounts = true}},
      {"\"" + kVolumes + "\" = true # comment\n" + kVariable + " = false\r\n",
       {.by_environment = false, .by_mounts = true}},
      {"#" + kVariable + " = false\n", {.by_environment = true, .by_mounts = false}},
      {"[nvidia-container-runtime]\n" + kVariable + " = false\n",
       {.by_environment = true, .by_mounts = false}},
      {"other = [\"a\", \"b\"]\n" + kVariable + " = false",
       {.by_environment = false, .by_mounts = false}},
  };
  for (const Case& one : cases) {
    const auto parsed = parse_toolkit_config(one.text);
    ASSERT_TRUE(parsed) << one.text << parsed.error().message;
    EXPECT_EQ(*parsed, one.settings) << one.text;
  }
}

// As nvidia-ctk config writes it.
TEST(ToolkitConfig, ReadsAWholeFile) {
  const auto parsed = parse_toolkit_config(R"(
#accept-nvidia-visible-devices-as-volume-mounts = false
accept-nvidia-visible-devices-envvar-when-unprivileged = false
disable-require = false
supported-driver-capabilities = "compat32,compute,display,graphics,ngx,utility,video"

[nvidia-container-cli]
environment = []
ldconfig = "@/sbin/ldconfig.real"
load-kmods = true

[nvidia-container-runtime]
log-level = "info"
mode = "auto"
runtimes = ["docker-runc", "runc", "crun"]

[nvidia-container-runtime.modes.csv]
mount-spec-path = "/etc/nvidia-container-runtime/host-files-for-container.d"
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_FALSE(parsed->by_environment);
  EXPECT_FALSE(parsed->by_mounts);
}

TEST(ToolkitConfig, RefusesOtherTexts) {
  struct Case {
    std::string text;
    std::string why;
  };
  const Case cases[] = {
      {kVariable + " = \"false\"\n", "line 1: " + kVariable + " must be true or false"},
      {"\n\n" + kVolumes + " = 1\n", "line 3: " + kVolumes + " must be true or false"},
      {kVolumes + " =\n", "line 1: " + kVolumes + " must be true or false"},
      {"a = 1\nb\n", "line 2: expected a key and a value"},
      {"\xff", "line 1: expected a key and a value"},
      {"a = \"\"\"\n" + kVariable + " = false\n\"\"\"\n", "line 1: a value of several lines"},
      {"a = '''\n" + kVariable + " = false\n'''\n", "line 1: a value of several lines"},
      {"a = [\n" + kVariable + " = false\n]\n", "line 1: a value of several lines"},
  };
  for (const Case& one : cases) {
    const auto parsed = parse_toolkit_config(one.text);
    ASSERT_FALSE(parsed) << one.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(one.why));
    EXPECT_LT(parsed.error().message.size(), 300U);
  }
}

class FindToolkitTest : public ::testing::Test {
 public:
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root() + path).parent_path());
    std::ofstream(root() + path) << text;
  }
  std::string root() const { return folder_.path(); }
  FoundToolkit find() const { return find_toolkit(root()); }

  const std::string package_ = "/etc/nvidia-container-runtime/config.toml";
  const std::string operator_ =
      "/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml";
  test::ScratchFolder folder_;
};

TEST_F(FindToolkitTest, HasTheDefaultsWithoutAFile) {
  EXPECT_EQ(find().settings, ToolkitSettings{});
  EXPECT_THAT(find().problems, IsEmpty());
}

TEST_F(FindToolkitTest, ReadsTheFileOfThePackageOrOfTheOperator) {
  write(package_, kVariable + " = false\n");
  EXPECT_FALSE(find().settings.by_environment);
  fs::remove(root() + package_);
  write(operator_, kVariable + " = false\n");
  EXPECT_FALSE(find().settings.by_environment);
}

// It is not known which of them the runtime reads.
TEST_F(FindToolkitTest, ASettingOfAnyFileCounts) {
  write(package_, kVariable + " = false\n" + kVolumes + " = true\n");
  write(operator_, kVariable + " = true\n");
  EXPECT_EQ(find().settings, (ToolkitSettings{.by_environment = true, .by_mounts = true}));
}

TEST_F(FindToolkitTest, AFileThatCannotBeReadHasTheDefaultsAndAProblem) {
  write(package_, "no toml");
  EXPECT_TRUE(find().settings.by_environment);
  EXPECT_THAT(find().problems, ElementsAre(HasSubstr(package_ + ": line 1: ")));
  write(package_, std::string(kToolkitFileBytesMax + 1, '#'));
  EXPECT_THAT(find().problems, ElementsAre(HasSubstr("settings of NVIDIA's container toolkit")));
  fs::remove(root() + package_);
  ASSERT_EQ(mkfifo((root() + package_).c_str(), 0600), 0);
  EXPECT_THAT(find().problems, ElementsAre(HasSubstr("settings of NVIDIA's container toolkit")));
}

}  // namespace
}  // namespace mgpu::plugin
