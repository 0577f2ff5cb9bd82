#include "plugin/kubelet/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "plugin/kubelet/limits.h"
#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/support/resource_names.h"
#include "test/support/base64.h"

namespace mgpu::plugin {
namespace {

using test::kCore;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Written by kubelet's own code (generate.go in the same folder).
std::string golden(const std::string& name) {
  std::ifstream file(MGPU_SOURCE_DIR "/test/golden/kubelet-1.36.3/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// "uid container c1,c2 allocation"
std::vector<std::string> lines(const Checkpoint& checkpoint) {
  std::vector<std::string> lines;
  for (const CheckpointEntry& entry : checkpoint.entries) {
    std::string ids;
    for (const std::string& id : entry.devices.ids()) ids += (ids.empty() ? "" : ",") + id;
    lines.push_back(
        fmt::format("{} {} {} {}", entry.uid.str(), entry.container, ids, entry.allocation.str()));
  }
  return lines;
}

std::string with_entries(std::string_view entries) {
  return fmt::format(R"({{"Data":{{"PodDeviceEntries":[{}]}},"Checksum":1}})", entries);
}

std::string entry_with(std::string_view devices, std::string_view response = "\"\"") {
  return fmt::format(
      R"({{"PodUID":"u","ContainerName":"c","ResourceName":"{}","DeviceIDs":{},"AllocResp":{}}})",
      kCore, devices, response);
}

// A ContainerAllocateResponse with one variable: tags 0x0a, lengths below 128.
std::string response_with(const std::string& name, const std::string& value) {
  const auto field = [](char tag, const std::string& bytes) {
    return std::string(1, tag) + static_cast<char>(bytes.size()) + bytes;
  };
  const std::string bytes = field(0x0a, field(0x0a, name) + field(0x12, value));
  return '"' + test::encode_base64(bytes) + '"';
}

TEST(Checkpoint, ReadsWhatKubeletWrites) {
  const auto checkpoint = parse_checkpoint(golden("checkpoint.json"), kCore);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const std::string pod = "0d2ab3a5-3f1e-4f0e-9a55-0d1f3c0a9b01";
  EXPECT_THAT(lines(*checkpoint), ElementsAre(pod + " init c2,c3,c5 0123456789abcdef-k2j4",
                                              pod + " main c1,c4,c7 fedcba9876543210-m7",
                                              "7c9e6679-7425-40de-944b-e07fc1f90ae7 other c9 "));
}

TEST(Checkpoint, ReadsOnlyTheEntriesOfTheResource) {
  const auto checkpoint = parse_checkpoint(golden("checkpoint.json"), "example.com/nic");
  EXPECT_THAT(lines(*checkpoint), ElementsAre("0d2ab3a5-3f1e-4f0e-9a55-0d1f3c0a9b01 main nic-0 "));
  EXPECT_THAT(parse_checkpoint(golden("checkpoint.json"), "example.com/other")->entries, IsEmpty());
}

TEST(Checkpoint, AcceptsAnEmptyList) {
  EXPECT_THAT(parse_checkpoint(golden("checkpoint-empty.json"), kCore)->entries, IsEmpty());
  EXPECT_THAT(parse_checkpoint(with_entries(""), kCore)->entries, IsEmpty());
}

TEST(Checkpoint, ReadsTheDeviceListOfOlderKubelets) {
  EXPECT_THAT(lines(*parse_checkpoint(with_entries(entry_with(R"(["c2","c1"])")), kCore)),
              ElementsAre("u c c1,c2 "));
}

TEST(Checkpoint, CountsADeviceOfSeveralNumaNodesOnce) {
  const auto text = with_entries(entry_with(R"({"0":["c1","c2"],"1":["c2"],"2":null})"));
  EXPECT_THAT(lines(*parse_checkpoint(text, kCore)), ElementsAre("u c c1,c2 "));
}

TEST(Checkpoint, ReadsTheAllocationFromTheResponse) {
  const auto allocation = [](const std::string& response) {
    const auto text = with_entries(entry_with(R"(["c1"])", response));
    return parse_checkpoint(text, kCore)->entries.at(0).allocation.str();
  };
  EXPECT_EQ(allocation(response_with("MGPU_ALLOCATION", "0123456789abcdef-a")),
            "0123456789abcdef-a");
  EXPECT_EQ(allocation(response_with("ANOTHER", "0123456789abcdef-a")), "");
  EXPECT_EQ(allocation("null"), "");
}

TEST(Checkpoint, SkipsUnreadableEntries) {
  const std::string bad[] = {
      "7",
      "null",
      "[]",
      "{}",
      R"({"ResourceName":7})",
      R"({"ResourceName":"vke.volcengine.com/mgpu-core"})",
      fmt::format(R"({{"PodUID":7,"ContainerName":"c","ResourceName":"{}","DeviceIDs":["c1"]}})",
                  kCore),
      fmt::format(R"({{"PodUID":"u","ContainerName":"","ResourceName":"{}","DeviceIDs":["c1"]}})",
                  kCore),
      entry_with("{}"),
      entry_with("[]"),
      entry_with("null"),
      entry_with("\"c1\""),
      entry_with("[7]"),
      entry_with(R"([["c1"]])"),
      entry_with(R"({"0":"c1"})"),
      entry_with(R"({"0":[{}]})"),
      entry_with("[\"" + std::string(64, 'x') + "\"]"),
      entry_with(R"(["c1"])", "\"no base64!\""),
      entry_with(R"(["c1"])", "\"/////w==\""),
      entry_with(R"(["c1"])", response_with("MGPU_ALLOCATION", "../../etc")),
  };
  for (const std::string& entry : bad) {
    SCOPED_TRACE(entry);
    const auto text = with_entries(entry + "," + entry_with(R"(["c7"])"));
    const auto checkpoint = parse_checkpoint(text, kCore);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_THAT(lines(*checkpoint), ElementsAre("u c c7 "));
  }
}

TEST(Checkpoint, DescribesAnInvalidFile) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "not JSON"},
      {"garbage", "not JSON"},
      {golden("checkpoint.json").substr(0, 700), "not JSON"},
      {"[]", "must be an object"},
      {"null", "must be an object"},
      {"{}", "has no list Data.PodDeviceEntries"},
      {R"({"Data":7})", "Data must be an object, is number 7"},
      {R"({"Data":{}})", "has no list Data.PodDeviceEntries"},
      {R"({"Data":{"PodDeviceEntries":{}}})", "Data.PodDeviceEntries must be an array, is object"},
      {std::string(200'000, '['), "must be an object"},
  };
  for (const auto& [text, sentence] : cases) {
    SCOPED_TRACE(text.substr(0, 60));
    const auto checkpoint = parse_checkpoint(text, kCore);
    ASSERT_FALSE(checkpoint);
    EXPECT_THAT(checkpoint.error().message,
                AllOf(HasSubstr("kubelet's checkpoint"), HasSubstr(sentence)));
  }
}

TEST(Checkpoint, HandlesEveryCorruptByte) {
  const std::string whole = golden("checkpoint.json");
  std::minstd_rand random(7);
  for (int i = 0; i < 3'000; ++i) {
    std::string text = whole;
    for (int changes = 0; changes < 1 + i % 4; ++changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto checkpoint = parse_checkpoint(text, kCore);
    if (!checkpoint) continue;
    EXPECT_LE(checkpoint->entries.size(), 4U);
    for (const CheckpointEntry& entry : checkpoint->entries) {
      EXPECT_TRUE(entry.allocation.empty() || valid(entry.allocation));
    }
  }
}

class CheckpointFile : public ::testing::Test {
 public:
  Result<Checkpoint> read() const { return read_checkpoint(folder_.path(), kCore); }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/kubelet_internal_checkpoint";
};

TEST_F(CheckpointFile, IsReadFromKubeletsFolder) {
  std::ofstream(path_) << golden("checkpoint.json");
  EXPECT_THAT(read()->entries, SizeIs(3));
}

TEST_F(CheckpointFile, MayBeMissing) {
  EXPECT_THAT(
      read().error().message,
      AllOf(HasSubstr("cannot read kubelet's checkpoint \"" + path_), HasSubstr("No such file")));
}

TEST_F(CheckpointFile, MustBeARegularFile) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(read().error().message, HasSubstr("not a regular file"));
}

TEST_F(CheckpointFile, HasASizeLimit) {
  std::ofstream(path_) << "{";
  std::filesystem::resize_file(path_, kCheckpointBytesMax + 1);
  EXPECT_THAT(read().error().message, HasSubstr("must have at most 67108864 bytes"));
}

}  // namespace
}  // namespace mgpu::plugin
