#include "plugin/cards/file/cards_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/contract/limits.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr char kOne[] =
    "cards: [{index: 0, uuid: GPU-a, model: V100, memoryMiB: 32510, devices: [/dev/nvidia0]}]\n";

std::string problem_of(const std::string& yaml) {
  const auto file = parse_cards_file(yaml);
  return file ? "none" : file.error().message;
}

// `kOne` with the text `from` replaced by `to`.
std::string with(const std::string& from, const std::string& to) {
  std::string yaml = kOne;
  return yaml.replace(yaml.find(from), from.size(), to);
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

TEST(CardsFile, ReadsCardsWithTheirDevices) {
  const auto file = parse_cards_file(R"(
cards:
  - index: 2
    uuid: GPU-5c1a
    model: Tesla V100-SXM2-32GB
    memoryMiB: 32510
    devices:
      - /dev/nvidia0
      - {path: /dev/nvidia0-extra, hostPath: /dev/zero}
  - {index: 0, uuid: GPU-b, model: "T4", memoryMiB: 16000, health: XID 79, devices: []}
)");
  ASSERT_TRUE(file) << file.error().message;
  const auto& cards = file->inventory.cards;
  ASSERT_THAT(cards, SizeIs(2));
  EXPECT_EQ(cards[0].uuid, CardUuid("GPU-5c1a"));
  EXPECT_EQ(cards[0].index, CardIndex(2));
  EXPECT_EQ(cards[0].model, "Tesla V100-SXM2-32GB");
  EXPECT_EQ(cards[0].memory, MiB(32510));
  EXPECT_EQ(cards[0].health, kHealthy);
  EXPECT_THAT(cards[0].nodes, ElementsAre(DeviceNode{"/dev/nvidia0", "/dev/nvidia0"},
                                          DeviceNode{"/dev/nvidia0-extra", "/dev/zero"}));
  EXPECT_EQ(cards[1].health, "XID 79");
  EXPECT_THAT(cards[1].nodes, IsEmpty());
  EXPECT_EQ(file->inventory.shared, Edits());
}

TEST(CardsFile, ReadsSharedEdits) {
  const auto file = parse_cards_file(std::string(kOne) + R"(
shared:
  devices: [/dev/nvidiactl]
  environment: {NAME: value, EMPTY: "", NUMBER: 7}
  mounts:
    - {hostPath: /usr/lib/x, containerPath: /usr/lib/y}
    - {hostPath: /a, containerPath: /b, readOnly: false}
)");
  ASSERT_TRUE(file) << file.error().message;
  const auto& shared = file->inventory.shared;
  EXPECT_THAT(shared.devices, ElementsAre(DeviceNode{"/dev/nvidiactl", "/dev/nvidiactl"}));
  EXPECT_THAT(shared.environment,
              ElementsAre(Pair("EMPTY", ""), Pair("NAME", "value"), Pair("NUMBER", "7")));
  EXPECT_THAT(shared.mounts,
              ElementsAre(Mount{"/usr/lib/x", "/usr/lib/y", true}, Mount{"/a", "/b", false}));
}

TEST(CardsFile, ReportsTheUseOfACardAsTheSumOfItsProcesses) {
  const auto file = parse_cards_file(with(
      "devices:",
      "processes: [{pid: 7, memoryMiB: 500, smPercent: 40.5}, {pid: 8, smPercent: 70}, {pid: 9}], "
      "devices:"));
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_THAT(file->use, SizeIs(1));
  const CardUse& use = file->use[0];
  EXPECT_EQ(use.uuid, CardUuid("GPU-a"));
  EXPECT_EQ(use.memory_used, MiB(500));
  EXPECT_EQ(use.sm_percent, 100);
  EXPECT_THAT(use.processes, ElementsAre(ProcessUse{7, MiB(500), 40.5}, ProcessUse{8, {}, 70},
                                         ProcessUse{9, {}, {}}));
  EXPECT_FALSE(use.measured) << "process 9 has no smPercent";
}

TEST(CardsFile, ReportsCardsWithoutProcessesAsIdle) {
  const auto file = parse_cards_file(kOne);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->use[0].memory_used, MiB(0));
  EXPECT_EQ(file->use[0].sm_percent, 0);
  EXPECT_TRUE(file->use[0].measured);
}

TEST(CardsFile, AcceptsAFileWithoutCards) {
  const auto file = parse_cards_file("cards: []");
  ASSERT_TRUE(file);
  EXPECT_THAT(file->inventory.cards, IsEmpty());
}

TEST(CardsFile, AcceptsJson) {
  EXPECT_EQ(problem_of(R"({"cards": [{"index": 0, "uuid": "GPU-a", "model": "V100",
                        "memoryMiB": 1, "devices": ["/dev/null"], "health": null}]})"),
            "none");
}

std::string three_cards(const std::string& links) {
  std::string yaml = "cards:\n";
  for (int i = 0; i < 3; ++i) {
    yaml += fmt::format(
        "- {{index: {0}, uuid: GPU-{0}, model: V100, memoryMiB: 1, devices: [], numa: {0}}}\n", i);
  }
  return yaml + "links: " + links;
}

TEST(CardsFile, ReadsLinksAndNumaNodes) {
  const auto file = parse_cards_file(three_cards("[X NV2 SYS, NV2  X PHB, \"SYS PHB X\"]"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->inventory.links.text(), "2-n");
  EXPECT_EQ(file->inventory.cards.at(2).numa, 2);
  EXPECT_TRUE(parse_cards_file(three_cards("null"))->inventory.links.empty());
}

TEST(CardsFile, RefusesLinksThatAreNotThoseOfItsCards) {
  EXPECT_EQ(problem_of(three_cards("[X NV2, NV2 X]")),
            "links must have a line for each of 3 cards, found 2");
  EXPECT_EQ(problem_of(three_cards("[X NV2 SYS, NV2 X, SYS SYS X]")),
            "links[1] must have 3 words, found 2");
  EXPECT_EQ(problem_of(three_cards("[X NV2 SYS, NV2 X PHB, SYS NODE X]")),
            "links must be equal in both directions, found \"NODE\" from cards[2] to cards[1], and "
            "\"PHB\" back");
  EXPECT_EQ(problem_of(three_cards("[X NV2 SYS, NV2 SYS PHB, SYS PHB X]")),
            "links[1] must have X at 1, found \"SYS\"");
  EXPECT_EQ(problem_of(three_cards("[X NV0 SYS, NV0 X PHB, SYS PHB X]")),
            "links[1]: a link must be SYS, NODE, PHB, PIX, PXB or NV1 to NV35, found \"NV0\"");
  EXPECT_EQ(problem_of(three_cards("[{}, X, X]")), "links[0] must have 3 words, found 0");
}

struct Case {
  std::string yaml;
  std::string problem;
};

TEST(CardsFile, RefusesFilesOfAnotherForm) {
  const Case cases[] = {
      {"", "the file must be a map with cards, links, shared"},
      {"cards: []\n---\ncards: []\n", "has 2 documents, expected one"},
      {", a", "not YAML: line 1: a document cannot begin here"},
      {"[]", "the file must be a map with cards, links, shared"},
      {"text", "the file must be a map with cards, links, shared"},
      {"shared: {}", "cards must be a list, found nothing"},
      {"cards:", "cards must be a list, found nothing"},
      {"cards: 7", "cards must be a list, found something else"},
      {"cards: [7]",
       "cards[0] must be a map with index, uuid, model, memoryMiB, health, devices, numa, "
       "processes"},
      {"cards: []\ncard: []",
       "the file has an unknown field \"card\", expected cards, links, shared"},
      {"cards: []\ncards: []", "line 2: has the key \"cards\" twice in a map"},
      {"cards: []\n? [a]\n: b", "line 2: has a key that is not a text"},
  };
  for (const Case& c : cases) EXPECT_EQ(problem_of(c.yaml), c.problem) << c.yaml;
}

TEST(CardsFile, ReportsTheLineThatIsNotYaml) {
  for (const std::string yaml :
       {"cards: [", "cards: {a: b", "cards: \"x", "\tcards: []", "cards: *nothing", "a: b: c",
        "cards: [}", "%YAML 9 9\n- :\n  -"}) {
    EXPECT_THAT(problem_of(yaml), testing::StartsWith("not YAML: line ")) << yaml;
  }
}

TEST(CardsFile, EscapesWhatIsNotYaml) {
  EXPECT_EQ(problem_of("cards: \"\\\xFF\""),
            "not YAML: line 1: unknown escape character: \xEF\xBF\xBD");
}

TEST(CardsFile, RefusesInvalidFieldsOfCards) {
  const Case cases[] = {
      {with("index: 0", "index: -1"),
       "cards[0].index must be a whole number from 0 to 1023, found \"-1\""},
      {with("index: 0", "index: 1024"),
       "cards[0].index must be a whole number from 0 to 1023, found \"1024\""},
      {with("index: 0, ", ""),
       "cards[0].index must be a whole number from 0 to 1023, found nothing"},
      {with("index: 0", "index: 0, index: 1"), "line 1: has the key \"index\" twice in a map"},
      {with("index: 0", "index: 99999999999999999999"),
       "cards[0].index must be a whole number from 0 to 1023, found \"99999999999999999999\""},
      {with("uuid: GPU-a, ", ""), "cards[0].uuid must be a text of 1 to 96 bytes, found nothing"},
      {with("GPU-a", "\"\""),
       "cards[0].uuid must be a text of 1 to 96 bytes without control characters, found \"\""},
      {with("GPU-a", "../../etc"),
       "cards[0].uuid must be letters, digits, \"-\", \"_\" and \".\", found \"../../etc\""},
      {with("GPU-a", "[x]"), "cards[0].uuid must be a text of 1 to 96 bytes, found a list"},
      {with("V100", "\"a\\nb\""),
       "cards[0].model must be a text of 1 to 96 bytes without control characters, found "
       "\"a\\nb\""},
      {with("32510", "0"),
       "cards[0].memoryMiB must be a whole number from 1 to 16777216, found \"0\""},
      {with("32510", "1.5"),
       "cards[0].memoryMiB must be a whole number from 1 to 16777216, found \"1.5\""},
      {with("32510", "32Gi"),
       "cards[0].memoryMiB must be a whole number from 1 to 16777216, found \"32Gi\""},
      {with("32510", "{}"),
       "cards[0].memoryMiB must be a whole number from 1 to 16777216, found a map"},
      {with("devices: [/dev/nvidia0]", "devices: ~"),
       "cards[0].devices must be a list, found nothing"},
      {with("/dev/nvidia0", "dev/nvidia0"),
       "cards[0].devices[0] must be an absolute path without \"..\", found \"dev/nvidia0\""},
      {with("/dev/nvidia0", "/dev/.."),
       "cards[0].devices[0] must be an absolute path without \"..\", found \"/dev/..\""},
      {with("/dev/nvidia0", "{path: /dev/a, hostPath: b}"),
       "cards[0].devices[0].hostPath must be an absolute path without \"..\", found \"b\""},
      {with("/dev/nvidia0", "{hostPath: /dev/a}"),
       "cards[0].devices[0].path must be an absolute path, found nothing"},
      {with("/dev/nvidia0", "{path: /dev/a, mode: rw}"),
       "cards[0].devices[0] has an unknown field \"mode\", expected path, hostPath"},
      {with("index: 0", "core: 100, index: 0"),
       "cards[0] has an unknown field \"core\", expected index, uuid, model, memoryMiB, health, "
       "devices, numa, processes"},
      {with("index: 0", "health: [], index: 0"),
       "cards[0].health must be a text of 1 to 96 bytes, found a list"},
  };
  for (const Case& c : cases) EXPECT_EQ(problem_of(c.yaml), c.problem) << c.yaml;
}

TEST(CardsFile, RefusesInvalidProcesses) {
  const Case cases[] = {
      {"{pid: 0}",
       "cards[0].processes[0].pid must be a whole number from 1 to 4194304, found \"0\""},
      {"{memoryMiB: 1}",
       "cards[0].processes[0].pid must be a whole number from 1 to 4194304, found nothing"},
      {"{pid: 1, smPercent: 101}",
       "cards[0].processes[0].smPercent must be a number from 0 to 100, found \"101\""},
      {"{pid: 1, smPercent: nan}",
       "cards[0].processes[0].smPercent must be a number from 0 to 100, found \"nan\""},
      {"{pid: 1, smPercent: .inf}",
       "cards[0].processes[0].smPercent must be a number from 0 to 100, found \".inf\""},
      {"{pid: 1}, {pid: 1}", "cards[0].processes[1].pid 1 is there twice"},
      {"7", "cards[0].processes[0] must be a map with pid, memoryMiB, smPercent"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(problem_of(with("devices:", "processes: [" + c.yaml + "], devices:")), c.problem);
  }
}

TEST(CardsFile, RefusesInvalidSharedEdits) {
  const Case cases[] = {
      {"shared: []", "shared must be a map with devices, environment, mounts"},
      {"shared: {env: {}}",
       "shared has an unknown field \"env\", expected devices, environment, mounts"},
      {"shared: {environment: [A]}", "shared.environment must be a map of texts"},
      {"shared: {environment: {1A: b}}",
       "shared.environment must have names of letters, digits and _, found \"1A\""},
      {"shared: {environment: {A: [b]}}",
       "shared.environment.A must be a text of at most 4096 bytes"},
      {"shared: {environment: {A: b, A: c}}", "line 2: has the key \"A\" twice in a map"},
      {"shared: {mounts: [{hostPath: /a}]}",
       "shared.mounts[0].containerPath must be an absolute path, found nothing"},
      {"shared: {mounts: [{hostPath: /a, containerPath: /b, readOnly: maybe}]}",
       "shared.mounts[0].readOnly must be true or false, found \"maybe\""},
      {"shared: {devices: [{path: /dev/nvidia0, hostPath: /dev/null}]}",
       "the path \"/dev/nvidia0\" in containers means both \"/dev/null\" and \"/dev/nvidia0\" of "
       "the node"},
  };
  for (const Case& c : cases) EXPECT_EQ(problem_of(kOne + c.yaml), c.problem) << c.yaml;
}

std::string card(const std::string& index, const std::string& uuid) {
  return "  - {index: " + index + ", uuid: " + uuid + ", model: a, memoryMiB: 1, devices: []}\n";
}

TEST(CardsFile, RefusesAnIndexOrUuidTwice) {
  EXPECT_EQ(problem_of("cards:\n" + card("0", "a") + card("1", "b") + card("0", "c")),
            "cards[2].index 0 is that of cards[0] too");
  EXPECT_EQ(problem_of("cards:\n" + card("0", "a") + card("1", "b") + card("2", "b")),
            "cards[2].uuid \"b\" is that of cards[1] too");
}

TEST(CardsFile, RefusesListsOverTheirLimits) {
  std::string cards = "cards:\n";
  for (std::size_t i = 0; i <= kCardsPerNodeMax; ++i) {
    cards += card(std::to_string(i), "u" + std::to_string(i));
  }
  EXPECT_EQ(problem_of(cards), "cards must have at most 64 entries, found 65");
  const std::string devices = repeated("/dev/null, ", kEditsPerCardMax + 1);
  EXPECT_EQ(problem_of(with("/dev/nvidia0", devices)),
            "cards[0].devices must have at most 64 entries, found 65");
  std::string variables;
  for (int i = 0; i < 65; ++i) variables += "A" + std::to_string(i) + ": b, ";
  EXPECT_EQ(problem_of(kOne + ("shared: {environment: {" + variables + "}}")),
            "shared.environment must have at most 64 variables, found 65");
}

TEST(CardsFile, CutsLongValuesInErrors) {
  EXPECT_THAT(problem_of(with("GPU-a", std::string(100'000, 'x'))),
              AllOf(HasSubstr("xxx...\""), SizeIs(testing::Lt(300))));
  EXPECT_THAT(problem_of(std::string(100'000, 'x') + ": y"), SizeIs(testing::Lt(300)));
}

TEST(CardsFile, RefusesDeepNesting) {
  EXPECT_EQ(problem_of("cards:\n" + std::string(10'000, '[')),
            "line 2: is nested deeper than 64 levels");
}

// Texts of some 500 KiB, which are refused without a crash.
TEST(CardsFile, SurvivesMaliciousText) {
  const std::size_t many = 500'000;
  std::string laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c <= 'z'; ++c) {
    const std::string before = "*" + std::string(1, static_cast<char>(c - 1));
    laughs += std::string(1, c) + ": &" + c + " [" + repeated(before + ", ", 9) + "]\n";
  }
  const std::string texts[] = {
      std::string(many, '['),
      std::string(many, '{'),
      repeated("- ", many / 2),
      repeated("a: {", many / 4),
      repeated("? ", many / 2),
      repeated("---\n", many / 4),
      repeated("\"", many),
      repeated("&a ", many / 3),
      repeated("!", many),
      repeated("a: b\n", many / 5),
      std::string(many, '\0'),
      std::string(many, '\xff'),
      laughs,
      "cards: &a [*a]",
      "cards: &a [{index: 0, uuid: *a}]",
      "&a cards: *a",
      "<<: [{cards: []}, x]",
      "cards: !!binary aGVsbG8=",
  };
  for (const std::string& text : texts) {
    EXPECT_NE(problem_of(text), "none") << text.substr(0, 20);
    EXPECT_THAT(problem_of("cards:\n- " + text), testing::Ne("none")) << text.substr(0, 20);
  }
}

TEST(CardsFile, SurvivesEveryTruncationAndChangeOfAGoodFile) {
  const std::string whole = std::string(kOne) +
                            "shared: {devices: [/dev/a], environment: {A: b}, mounts: [{hostPath: "
                            "/a, containerPath: /b}]}\n";
  ASSERT_EQ(problem_of(whole), "none");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    problem_of(whole.substr(0, i));
    std::string changed = whole;
    for (const char c : {'\0', '[', '}', ':', '&', '\n', '\xC0'}) {
      changed[i] = c;
      problem_of(changed);
    }
  }
}

}  // namespace
}  // namespace mgpu::plugin
