#include "plugin/cards/nvml/nvml_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/cards/limits.h"
#include "plugin/cards/nvml/nvml_source.h"
#include "test/plugin/cards/fake_driver.h"

namespace mgpu::plugin {
namespace {

using testing::HasSubstr;

class NvmlLinks : public testing::Test {
 protected:
  NvmlLinks() { node_.add_cuda(); }

  // A card for each line, whose words are its links.
  void set_links(const std::vector<std::string>& lines, const std::string& more = "") const {
    std::string scenario = "driver 580.95.05\n";
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string uuid = "GPU-" + std::to_string(i);
      scenario += "card " + uuid + " minor=" + std::to_string(i) + "\n";
      if (!lines[i].empty()) scenario += "links " + uuid + " " + lines[i] + "\n";
    }
    node_.set_scenario(scenario + more);
  }
  FoundCards read() {
    auto found = source_->read();
    EXPECT_TRUE(found) << found.error().message;
    return *std::move(found);
  }
  std::string links() { return read().links.text(); }

  const FakeDriver node_;
  std::unique_ptr<CardSource> source_ = nvml_source(node_.options());
};

TEST_F(NvmlLinks, AreThoseOfTheDriver) {
  set_links({"X NV2 PXB SYS", "NV2 X PHB SYS", "PXB PHB X NODE", "SYS SYS NODE X"});
  const FoundCards found = read();
  EXPECT_EQ(found.links.text(), "2pn--n");
  EXPECT_EQ(found.links_problem, "");
}

TEST_F(NvmlLinks, ThroughSwitchesAreAsManyAsTheCardHasThatHasFewer) {
  set_links({"X NV18s NV18s", "NV18s X NV18s", "NV16s NV16s X"});
  const FoundCards found = read();
  EXPECT_EQ(found.links.text(), "IGG");
  EXPECT_EQ(found.links_problem, "");
}

TEST_F(NvmlLinks, ToWhatCannotBeIdentifiedLeadToSwitches) {
  set_links({"X NV12?", "NV12? X"});
  EXPECT_EQ(links(), "C");
}

TEST_F(NvmlLinks, OfANodeWithoutNvlinkAreItsPcieBridges) {
  set_links({"X PIX", "PIX X"}, "fail nvmlDeviceGetNvLinkState 3\n");
  const FoundCards found = read();
  EXPECT_EQ(found.links.text(), "p");
  EXPECT_EQ(found.links_problem, "");
}

TEST_F(NvmlLinks, ThatCannotBeReadDoNotCount) {
  set_links({"X NV2 NV2", "NV2 X NV2", "NV2 NV2 X"}, "fail nvmlDeviceGetNvLinkState 999 GPU-1\n");
  const FoundCards found = read();
  EXPECT_EQ(found.links.text(), "-2-");
  EXPECT_EQ(found.links_problem,
            "the links of card GPU-1 cannot be read, and do not count: nvmlDeviceGetNvLinkState "
            "failed: Other (999)");
  EXPECT_EQ(found.cards.at(1).health, kHealthy);
}

TEST_F(NvmlLinks, ThatDifferInTheTwoDirectionsCountAsTheFewer) {
  set_links({"X NV4", "NV3 X"});
  const FoundCards found = read();
  EXPECT_EQ(found.links.text(), "3");
  EXPECT_EQ(found.links_problem,
            "cards GPU-1 and GPU-0 report 3 and 4 NVLinks to each other, and the smaller number "
            "counts");
  set_links({"X NV4", "NV4 X"});
  source_ = nvml_source(node_.options());
  EXPECT_EQ(read().links_problem, "");
}

TEST_F(NvmlLinks, OfOneNumaNodeAreKnownWithoutTheDriver) {
  node_.add_file("/sys/bus/pci/devices/0000:01:00.0/numa_node", "1\n");
  node_.add_file("/sys/bus/pci/devices/0000:02:00.0/numa_node", "1\n");
  node_.add_file("/sys/bus/pci/devices/0000:03:00.0/numa_node", "-1\n");
  node_.add_file("/sys/bus/pci/devices/0000:04:00.0/numa_node", "many\n");
  set_links({"", "", "", "", ""});
  const FoundCards found = read();
  EXPECT_EQ(found.cards.at(0).numa, 1);
  EXPECT_EQ(found.cards.at(1).numa, 1);
  for (const std::size_t card : {2U, 3U, 4U}) EXPECT_EQ(found.cards.at(card).numa, std::nullopt);
  EXPECT_EQ(found.links.text(), "n---------");
}

TEST_F(NvmlLinks, AreReadAgainWithOtherCardsAndAfterAWhile) {
  set_links({"X NV2", "NV2 X"});
  EXPECT_EQ(links(), "2");
  set_links({"X SYS", "SYS X"});
  EXPECT_EQ(links(), "2");
  for (int i = 0; i < kLinkReads; ++i) read();
  EXPECT_EQ(links(), "-");
  set_links({"X NV1 PIX", "NV1 X SYS", "PIX SYS X"});
  EXPECT_EQ(links(), "1p-");
}

// NVML is opened again after the fall from three cards to none.
TEST_F(NvmlLinks, EndWithTheCards) {
  set_links({"X NV1 PIX", "NV1 X SYS", "PIX SYS X"});
  EXPECT_EQ(links(), "1p-");
  source_->release();
  set_links({});
  const FoundCards found = read();
  EXPECT_EQ(found.cards.size(), 0U);
  EXPECT_EQ(found.links.text(), "");
}

TEST_F(NvmlLinks, OfAnOldDriverAreNotKnown) {
  source_ = nvml_source(node_.options("fake_nvml_old.so"));
  set_links({"X NV2", "NV2 X"});
  EXPECT_EQ(links(), "-");
}

}  // namespace
}  // namespace mgpu::plugin
