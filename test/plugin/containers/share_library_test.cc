// The mounts of containers with a share, where a library limits their memory.
#include "plugin/containers/share_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "test/plugin/support/gpu_objects.h"

namespace mgpu::plugin {
namespace {
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

class ShareLibraryTest : public testing::Test {
 public:
  // The mounts of the node by their paths in the container, and their hosts.
  std::map<std::string, std::string> mounts() const {
    std::map<std::string, std::string> all;
    const auto mounts = share_mounts(library_, record_, shared_);
    EXPECT_TRUE(mounts) << mounts.error().message;
    for (const Mount& mount : *mounts) {
      EXPECT_TRUE(all.emplace(mount.container_path, mount.host_path).second)
          << mount.container_path;
      EXPECT_EQ(mount.read_only, !mount.container_path.ends_with("/usage"));
    }
    return all;
  }

  const ShareLibrary library_{.cuda = "/state/libmgpu-cuda.so",
                              .nvml = "/state/libmgpu-nvml.so",
                              .empty = "/run/mgpu/empty",
                              .pages = "/run/mgpu/share"};
  Record record_ = test::started(test::allocated(test::device_ids(30), "a"), "x", 1);
  Edits shared_{.devices = {},
                .mounts = {{"/driver/libcuda.so.580.1", "/usr/lib64/libcuda.so.580.1"},
                           {"/driver/libcuda.so.580.1", "/usr/lib64/libcuda.so.1"},
                           {"/driver/libcudadebugger.so.1", "/usr/lib64/libcudadebugger.so.1"},
                           {"/driver/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1"}},
                .environment = {}};
};

TEST_F(ShareLibraryTest, ReplacesEveryNameOfTheDriversLibraries) {
  const auto all = mounts();
  EXPECT_THAT(all, Contains(Pair("/usr/lib64/libcuda.so.580.1", library_.cuda)));
  EXPECT_THAT(all, Contains(Pair("/usr/lib64/libcuda.so.1", library_.cuda)));
  EXPECT_THAT(all, Contains(Pair("/usr/lib64/libnvidia-ml.so.1", library_.nvml)));
  EXPECT_THAT(all, Not(Contains(Key("/usr/lib64/libcudadebugger.so.1"))));
  EXPECT_THAT(all,
              Contains(Pair("/usr/lib/mgpu/libmgpu-cuda-driver.so", "/driver/libcuda.so.580.1")));
  EXPECT_THAT(all,
              Contains(Pair("/usr/lib/mgpu/libmgpu-nvml-driver.so", "/driver/libnvidia-ml.so.1")));
  EXPECT_THAT(all, Contains(Pair("/usr/lib/mgpu/libmgpu-nvml.so", library_.nvml)));
}

// Programs of 32 bits find no library rather than one without a limit.
TEST_F(ShareLibraryTest, ReplacesThoseOf32BitsAndNeverLoadsThem) {
  shared_.mounts.insert(shared_.mounts.begin(),
                        {{"/driver32/libcuda.so.580.1", "/usr/lib/i386-linux-gnu/libcuda.so.580.1"},
                         {"/driver32/libcuda.so.580.1", "/usr/lib32/libcuda.so.1"}});
  const auto all = mounts();
  EXPECT_THAT(all, Contains(Pair("/usr/lib32/libcuda.so.1", library_.cuda)));
  EXPECT_THAT(all, Contains(Pair("/usr/lib/i386-linux-gnu/libcuda.so.580.1", library_.cuda)));
  EXPECT_THAT(all,
              Contains(Pair("/usr/lib/mgpu/libmgpu-cuda-driver.so", "/driver/libcuda.so.580.1")));
}

TEST_F(ShareLibraryTest, HidesTheLibrariesThatImagesBring) {
  EXPECT_THAT(mounts(), Contains(Pair("/usr/local/cuda/compat", library_.empty)));
}

// A volume of the pod between the folder and its files would replace the limit.
TEST_F(ShareLibraryTest, MountsEachPage) {
  const std::string pages = "/run/mgpu/share", on_node = pages + "/" + record_.id.str();
  const auto all = mounts();
  EXPECT_THAT(all, Contains(Pair(pages, on_node)));
  for (const std::string file : {"/GPU-1/limits", "/GPU-1/usage"}) {
    EXPECT_THAT(all, Contains(Pair(pages + file, on_node + file)));
  }
}

// The library knows a MIG device by the UUID that CUDA returns.
TEST_F(ShareLibraryTest, MountsThePagesOfAMigDevice) {
  record_.cards.at(0).uuid = CardUuid("MIG-1");
  EXPECT_THAT(mounts(), Contains(Pair("/run/mgpu/share/GPU-1/limits",
                                      "/run/mgpu/share/" + record_.id.str() + "/GPU-1/limits")));
}

TEST_F(ShareLibraryTest, RefusesAContainerWithoutAnythingToReplace) {
  shared_.mounts.erase(shared_.mounts.begin(), shared_.mounts.begin() + 2);
  EXPECT_THAT(share_mounts(library_, record_, shared_).error().message,
              HasSubstr("no libcuda.so.1 from the driver"));
  const ShareLibrary broken{.cuda = {}, .nvml = {}, .empty = {}, .pages = {}, .problem = "full"};
  EXPECT_EQ(share_mounts(broken, record_, shared_).error().message, "full");
}

TEST_F(ShareLibraryTest, IsForPartsOfCards) {
  Record record = record_;
  EXPECT_TRUE(has_share(record));
  record.cards.push_back(record.cards.front());
  record.cards.back().share.core = kWholeCard;
  EXPECT_TRUE(has_share(record)) << "one of its cards is shared";
  record.cards.front().share.core = kWholeCard;
  EXPECT_FALSE(has_share(record));
}

}  // namespace
}  // namespace mgpu::plugin
