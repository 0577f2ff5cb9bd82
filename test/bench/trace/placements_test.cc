#include "bench/trace/placements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "test/bench/trace/small_trace.h"
#include "test/support/scratch_folder.h"

namespace mgpu::trace {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

Placement on(std::vector<CardIndex> cards) {
  return {.cards_of = {std::move(cards)}};
}

class Placements : public testing::Test {
 protected:
  Json json_of(MemoryRule rule, std::vector<Arrival> pods) {
    const Objects objects(trace_, rule);
    const Arrivals run{
        .seed = 7, .nodes = {NodeName("0003-n0"), NodeName("0001-n1")}, .pods = std::move(pods)};
    return Json::parse(placements_json(objects, {run}));
  }

  Trace trace_ = test::trace_of("n0 64000/1000 4xT4;n1 8000/500",
                                "p0 4000/100 1x460 G2|T4;p1 2000/50 2x1000;p2 1000/10");
};

TEST_F(Placements, NameTheNodesAsInTheRun) {
  const Json json = json_of(MemoryRule::kReference, {});
  ASSERT_EQ(json["seeds"].size(), 1U);
  EXPECT_EQ(json["seeds"][0]["seed"], 7);
  EXPECT_EQ(json["seeds"][0]["arrivals"], Json::array());
  EXPECT_EQ(json["seeds"][0]["nodes"], Json::parse(R"([
    {"name": "0003-n0", "cpu_milli": 64000, "memory_mib": 1000, "model": "T4", "cards": 4,
     "card_memory_mib": 15109},
    {"name": "0001-n1", "cpu_milli": 8000, "memory_mib": 500, "model": "", "cards": 0,
     "card_memory_mib": 16384}])"));
}

TEST_F(Placements, ListTheRequestAndPlacementOfEveryPod) {
  const Json json =
      json_of(MemoryRule::kNone, {{.pod = 1, .node = 0, .cards = on({CardIndex(2), CardIndex(3)})},
                                  {.pod = 0, .node = 0, .cards = on({CardIndex(0)})},
                                  {.pod = 2, .node = 1}});
  EXPECT_EQ(json["seeds"][0]["arrivals"], Json::parse(R"([
    {"pod": "p1", "cpu_milli": 2000, "memory_mib": 50, "core": 200, "gpu_memory_mib": 0,
     "models": [], "node": "0003-n0", "cards": [2, 3]},
    {"pod": "p0", "cpu_milli": 4000, "memory_mib": 100, "core": 46, "gpu_memory_mib": 1,
     "models": ["G2", "T4"], "node": "0003-n0", "cards": [0]},
    {"pod": "p2", "cpu_milli": 1000, "memory_mib": 10, "core": 0, "gpu_memory_mib": 0,
     "models": [], "node": "0001-n1", "cards": []}])"));
}

TEST_F(Placements, AreNullForAPodThatFittedNowhere) {
  const Json json = json_of(MemoryRule::kNone, {{.pod = 0}});
  EXPECT_TRUE(json["seeds"][0]["arrivals"][0]["node"].is_null());
  EXPECT_EQ(json["seeds"][0]["arrivals"][0]["cards"], Json::array());
}

TEST(TextFile, ReplacesWhatWasThere) {
  const test::ScratchFolder folder;
  for (const std::string text : {"long text\n", "short\n", ""}) {
    ASSERT_TRUE(write_text_file(folder.path("a"), text));
    std::stringstream read;
    read << std::ifstream(folder.path("a")).rdbuf();
    EXPECT_EQ(read.str(), text);
  }
}

TEST(TextFile, SaysWhyItCannotBeWritten) {
  const test::ScratchFolder folder;
  const auto absent = write_text_file(folder.path("no/such/folder"), "x");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("cannot be written: No such file or directory"));
  const auto is_folder = write_text_file(folder.path(), "x");
  ASSERT_FALSE(is_folder);
  EXPECT_THAT(is_folder.error().message, StartsWith("\"" + folder.path() + "\" cannot be written"));
}

// /dev/full behaves like a full disk.
TEST(TextFile, IsRefusedByAFullDevice) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const auto full = write_text_file("/dev/full", "x");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace mgpu::trace
