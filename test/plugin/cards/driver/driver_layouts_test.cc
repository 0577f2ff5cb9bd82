// Compares the files of the driver that containers get with those that NVIDIA's own tool lists, for
// each layout of test/golden/nvidia-ctk-1.20.1. Every difference is in one of the tables below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "plugin/cards/driver/driver_files.h"
#include "test/plugin/cards/recorded_layout.h"

namespace mgpu::plugin {
namespace {
using testing::Contains;

const std::string kFolder = MGPU_SOURCE_DIR "/test/golden/nvidia-ctk-1.20.1";
constexpr std::string_view kTargets[] = {"/usr/lib/x86_64-linux-gnu/", "/usr/lib64/"};

struct Difference {
  std::string_view part;  // of the path in the container, or the name of a hook
  std::string_view reason;
};

constexpr std::string_view kDrawing = "for graphics: OpenGL, Vulkan, EGL, X, ray tracing";
constexpr std::string_view kDaemon = "a daemon of the node, which no container may replace";
constexpr std::string_view kControl =
    "commands a daemon of the node for all cards, and CUDA does without; a container whose mount "
    "is "
    "gone after a restart of the daemon does not start (NVIDIA/nvidia-container-toolkit#707)";

constexpr Difference kNotMounted[] = {
    {"/libEGL_nvidia.so", kDrawing},
    {"/libGLESv1_CM_nvidia.so", kDrawing},
    {"/libGLESv2_nvidia.so", kDrawing},
    {"/libGLX_nvidia.so", kDrawing},
    {"/libGLX_indirect.so", kDrawing},
    {"/libglxserver_nvidia.so", kDrawing},
    {"/libnvidia-egl", kDrawing},
    {"/libnvidia-fbc.so", kDrawing},
    {"/libnvidia-gl", kDrawing},
    {"/libnvidia-gtk", kDrawing},
    {"/libnvidia-present.so", kDrawing},
    {"/libnvidia-rtcore.so", kDrawing},
    {"/libnvidia-tls.so", kDrawing},
    {"/libnvidia-vksc-core.so", kDrawing},
    {"/libnvidia-wayland-client.so", kDrawing},
    {"/libnvoptix.so", kDrawing},
    {"/libvdpau_nvidia.so", kDrawing},
    {"/nvidia-drm_gbm.so", kDrawing},
    {"/nvidia_drv.so", kDrawing},
    {"/nvidia-xconfig", kDrawing},
    {"/usr/share/nvidia/nvoptix.bin", kDrawing},
    {"/glvnd/", kDrawing},
    {"/vulkan/", kDrawing},
    {"/nvidia-persistenced/socket", kControl},
    {"/nvidia-fabricmanager/socket", kControl},
    {"/bin/nvidia-persistenced", kDaemon},
    {"/bin/nvidia-imex", kDaemon},
    {"/bin/nvidia-cuda-mps-", "MPS daemons are started by this plugin (mps.h)"},
    {"/bin/nvidia-debugdump", "a tool for NVIDIA's support, whose dump covers the whole card"},
};

constexpr Difference kReplacedHooks[] = {
    {"create-symlinks", "libraries are mounted under each name"},
    {"update-ldcache", "libraries are mounted into the folders that every loader searches"},
    {"enable-cuda-compat",
     "needs a program on the node that changes the container; an image sets "
     "LD_LIBRARY_PATH=/usr/local/cuda/compat instead"},
    {"disable-device-node-modification",
     "runc refuses mounts below /proc; nodes of other cards that a program makes cannot be opened"},
    {"update-application-profile", kDrawing},
};

const Difference* difference(const std::string& path) {
  const auto* const found = std::ranges::find_if(
      kNotMounted, [&](const Difference& known) { return path.find(known.part) != path.npos; });
  return found == std::end(kNotMounted) ? nullptr : found;
}

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename();
}

bool is_library(const std::string& path) {
  return file_name(path).starts_with("lib");
}

// Where we mount what nvidia-ctk mounts there.
std::vector<std::string> targets_of(const std::string& path) {
  if (file_name(path) == "nvidia-smi") return {"/usr/bin/nvidia-smi"};
  if (!is_library(path)) return {path};
  std::vector<std::string> targets;
  for (const std::string_view folder : kTargets) {
    targets.push_back(std::string(folder) + file_name(path));
  }
  return targets;
}

class DriverLayouts : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
#if defined(__aarch64__)
    GTEST_SKIP() << "recorded for x86_64";
#endif
  }

  // The file of the node behind a path in a container with nvidia-ctk's mounts and links.
  std::string listed_file(const std::string& path) const {
    const auto link = links_.find(path);
    if (link != links_.end()) {
      const auto target = std::filesystem::path(path).parent_path() / link->second;
      return listed_file(target.lexically_normal().string());
    }
    const auto mount = std::ranges::find(listed_, path, &Mount::container_path);
    return mount == listed_.end() ? "" : mount->host_path;
  }

  const RecordedLayout layout_{kFolder, GetParam()};
  const std::vector<Mount> listed_ = layout_.mounts();
  const std::map<std::string, std::string> links_ = layout_.links();
  const std::vector<Mount> ours_ = driver_files(layout_.place());
};

TEST_P(DriverLayouts, EachListedFileIsMountedOrLeftOutForAReason) {
  ASSERT_FALSE(listed_.empty());
  for (const Mount& mount : listed_) {
    for (const std::string& target : targets_of(mount.container_path)) {
      const Mount same{mount.host_path, target};
      const bool left_out = difference(mount.container_path) != nullptr;
      EXPECT_EQ(std::ranges::find(ours_, same) == ours_.end(), left_out)
          << mount.host_path << " as " << target;
    }
  }
}

TEST_P(DriverLayouts, EachLinkToALibraryIsMountedUnderItsName) {
  ASSERT_FALSE(links_.empty());
  for (const auto& [path, target] : links_) {
    if (difference(path) != nullptr) continue;
    for (const std::string& ours : targets_of(path)) {
      EXPECT_THAT(ours_, Contains(Mount{listed_file(path), ours}));
    }
  }
}

// A name that nvidia-ctk does not link is a SONAME, which its hook update-ldcache links.
TEST_P(DriverLayouts, NothingElseIsMounted) {
  for (const Mount& mount : ours_) {
    const auto listed = std::ranges::find(listed_, mount.host_path, &Mount::host_path);
    ASSERT_NE(listed, listed_.end()) << mount.host_path << " as " << mount.container_path;
    const std::string name = file_name(mount.container_path);
    const auto folder = std::filesystem::path(listed->container_path).parent_path();
    EXPECT_EQ(listed_file(folder / name), mount.host_path) << mount.container_path;
  }
}

TEST_P(DriverLayouts, HaveTheListedDeviceNodesButGraphics) {
  std::vector<DeviceNode> listed = layout_.nodes();
  std::erase_if(listed, [](const DeviceNode& node) { return node.path == "/dev/nvidia-modeset"; });
  EXPECT_THAT(control_nodes(layout_.place()), testing::UnorderedElementsAreArray(listed));
  EXPECT_THAT(layout_.card_nodes(),
              testing::ElementsAre(device_node(layout_.place(), "/dev/nvidia0")));
}

TEST_P(DriverLayouts, DevicesHaveTheLinksThatNvidiaCtkMakes) {
  if (!layout_.make_devices()) GTEST_SKIP() << "creating device nodes needs root";
  const DriverPlace place = layout_.place();
  std::vector<DeviceNode> nodes = control_nodes(place);
  nodes.push_back(device_node(place, "/dev/nvidia0"));
  ASSERT_TRUE(link_in_dev_char(place, nodes));
  std::map<std::string, std::string> links;
  std::error_code failed;
  for (const auto& link :
       std::filesystem::directory_iterator(place.node_root + "/dev/char", failed)) {
    const auto target = std::filesystem::path("/dev/char") / read_symlink(link.path());
    links[link.path().filename()] = target.lexically_normal();
  }
  auto listed = layout_.device_links();
  std::erase_if(listed, [](const auto& link) { return link.second == "/dev/nvidia-modeset"; });
  EXPECT_EQ(links, listed);
}

TEST_P(DriverLayouts, EachHookIsReplacedForAReason) {
  std::set<std::string> replaced;
  for (const Difference& known : kReplacedHooks) replaced.emplace(known.part);
  EXPECT_EQ(layout_.hooks(), replaced);
}

// The other variable is for the hook apply-cuda-memory-limits and for programs of hooks.
TEST_P(DriverLayouts, ContainersGetTheListedVariable) {
  std::set<std::string> listed = layout_.environment();
  std::erase_if(listed, [](const std::string& variable) {
    return variable.starts_with("NVIDIA_CTK_LIBCUDA_DIR=");
  });
  EXPECT_THAT(listed, testing::ElementsAre("NVIDIA_VISIBLE_DEVICES=void"));
  EXPECT_EQ(environment_of(Record{}).at("NVIDIA_VISIBLE_DEVICES"), "void");
}

const std::string kLayouts[] = {"runfile",  "debian",       "ubuntu-server", "redhat",
                                "cuda-deb", "cuda-rpm",     "gpu-operator",  "gpu-operator-redhat",
                                "gke",      "bottlerocket", "talos"};

INSTANTIATE_TEST_SUITE_P(Recorded, DriverLayouts, testing::ValuesIn(kLayouts),
                         [](const auto& layout) {
                           std::string name = layout.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(DriverLayoutsTables, EachDifferenceOccursInALayout) {
  std::set<std::string_view> seen;
  for (const std::string& name : kLayouts) {
    const RecordedLayout layout(kFolder, name);
    std::vector<std::string> paths;
    for (const Mount& mount : layout.mounts()) paths.push_back(mount.container_path);
    for (const auto& [path, target] : layout.links()) paths.push_back(path);
    for (const std::string& path : paths) {
      if (const Difference* known = difference(path)) seen.insert(known->part);
    }
  }
  for (const Difference& known : kNotMounted) EXPECT_THAT(seen, Contains(known.part));
}

}  // namespace
}  // namespace mgpu::plugin
