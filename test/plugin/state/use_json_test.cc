#include "plugin/state/use_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::sys_seconds;
using testing::HasSubstr;
using testing::SizeIs;

const sys_seconds kBegin{seconds(1'767'225'600)};  // 2026-01-01T00:00:00Z

UseMoment after(std::int64_t passed) {
  return {seconds(passed), kBegin + seconds(passed)};
}

HeldShare share(const std::string& pod, std::optional<double> percent) {
  HeldShare made{Owner{{"ml", pod}, PodUid("uid-" + pod), "app", {}, 0},
                 {CardIndex(3), CardUuid("GPU-3"), {Percent(30), MiB(4'096)}}};
  made.sm_percent = percent;
  return made;
}

// Pod "a" has used 20 % of a card for 10 seconds and has ended, and "b" is not measured.
UseAccount account() {
  UseAccount made(after(0));
  HeldShare measured = share("a", 20);
  measured.pod_owner = kube::PodOwner{"Deployment", "web"};
  measured.memory = MiB(1'800);
  made.add(after(0), {measured}, true);
  made.add(after(10), {measured, share("b", {})}, true);
  made.add(after(15), {share("b", {})}, true);
  return made;
}

// --- GET /use ------------------------------------------------------------------------------------

TEST(UseJson, HasAllMembersOfAShareThatWasMeasured) {
  const auto json = nlohmann::json::parse(use_json(NodeName("n1"), account(), after(15).wall));
  EXPECT_EQ(json["node"], "n1");
  EXPECT_EQ(json["since"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(json["now"], "2026-01-01T00:00:15Z");
  EXPECT_EQ(json["leftOut"], 0);
  ASSERT_THAT(json["items"], SizeIs(2));
  EXPECT_EQ(json["items"][1], nlohmann::json::parse(R"({
      "namespace": "ml", "pod": "a", "container": "app", "ownerKind": "Deployment", "owner": "web",
      "card": 3, "uuid": "GPU-3", "corePercent": 30, "memoryMiB": 4096, "running": false,
      "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:15Z", "cardSecondsGranted": 4.5,
      "cardSecondsUsed": 2.0, "secondsMeasured": 10.0, "memoryMiBPeak": 1800,
      "corePercentP95": 20, "samples": 2})"));
}

TEST(UseJson, LeavesOutWhatIsNotKnown) {
  const auto json = nlohmann::json::parse(use_json(NodeName("n1"), account(), after(15).wall));
  EXPECT_EQ(json["items"][0], nlohmann::json::parse(R"({
      "namespace": "ml", "pod": "b", "container": "app", "card": 3, "uuid": "GPU-3",
      "corePercent": 30, "memoryMiB": 4096, "running": true, "from": "2026-01-01T00:00:10Z",
      "to": "2026-01-01T00:00:15Z", "cardSecondsGranted": 1.5, "secondsMeasured": 0.0,
      "samples": 0})"));
}

TEST(UseJson, IsValidWhateverTheNamesAre) {
  UseAccount made(after(0));
  made.add(after(0), {share("\xFF\"\n</script>", 1)}, true);
  const auto json = nlohmann::json::parse(use_json(NodeName("n1"), made, after(0).wall));
  EXPECT_EQ(json["items"][0]["pod"], "\xEF\xBF\xBD\"\n</script>");
}

// --- the file ------------------------------------------------------------------------------------

TEST(SavedUseJson, ReadsBackItsOwnText) {
  const SavedUse saved = account().saved(after(20));
  const auto read = parse_saved_use(saved_use_json(saved));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->since, saved.since);
  EXPECT_EQ(read->saved, after(20).wall);
  ASSERT_THAT(read->shares, SizeIs(2));
  for (std::size_t i = 0; i < 2; ++i) {
    const ShareUse& now = read->shares[i];
    const ShareUse& before = saved.shares[i];
    EXPECT_EQ(std::tie(now.pod, now.uid, now.container, now.pod_owner, now.grant, now.running),
              std::tie(before.pod, before.uid, before.container, before.pod_owner, before.grant,
                       before.running));
    EXPECT_EQ(std::tie(now.from, now.to, now.memory_peak, now.samples),
              std::tie(before.from, before.to, before.memory_peak, before.samples));
    EXPECT_EQ(now.granted_card_seconds, before.granted_card_seconds);
    EXPECT_EQ(now.used_card_seconds, before.used_card_seconds);
    EXPECT_EQ(now.measured_seconds, before.measured_seconds);
    EXPECT_EQ(now.histogram.seconds(), before.histogram.seconds());
  }
}

TEST(SavedUseJson, LeavesOutTheLastSharesOfALongAccount) {
  SavedUse saved = account().saved(after(20));
  const std::size_t all = saved_use_json(saved).size();
  const auto shorter = parse_saved_use(saved_use_json(saved, all - 1));
  ASSERT_TRUE(shorter);
  ASSERT_THAT(shorter->shares, SizeIs(1));
  EXPECT_EQ(shorter->shares[0].pod.name, "b");
  EXPECT_EQ(shorter->left_out, 1U);
  EXPECT_LT(saved_use_json(saved, all - 1).size(), all);
}

TEST(SavedUseJson, RefusesWhatIsNotAnAccount) {
  const std::string good = saved_use_json(account().saved(after(20)));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), text.npos) << from;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const struct {
    std::string text;
    const char* sentence;
  } cases[] = {
      {"", ""},
      {"[]", "must be an object"},
      {good.substr(0, good.size() / 2), ""},
      {with("\"version\":1", "\"version\":2"), "\"version\" must be 1"},
      {with("\"since\":1767225600", "\"since\":-1"), "\"since\" is out of range"},
      {with("\"since\":1767225600", "\"since\":\"soon\""), "\"since\" is out of range"},
      {with("\"core\":30", "\"core\":1001"), "\"core\" is out of range"},
      {with("\"index\":3", "\"index\":1024"), "\"index\" is out of range"},
      {with("\"memoryMiB\":4096", "\"memoryMiB\":16777217"), "\"memoryMiB\" is out of range"},
      {with("\"samples\":2", "\"samples\":-2"), "\"samples\" is out of range"},
      {with("\"grantedMs\":4500", "\"grantedMs\":4.5"), "must be a string"},
      {with("{\"20\":10000}", "{\"101\":10000}"), "a member of \"histogramMs\" must be 0 to 100"},
      {with("{\"20\":10000}", "{\"20\":-1}"), "\"20\" is out of range"},
      {with("\"pod\":\"a\"", "\"pod\":\"\""), "\"pod\" must have 1 to 256 bytes"},
      {with("\"owner\":\"web\"", "\"owner\":\"" + std::string(257, 'w') + "\""),
       "\"owner\" must have 1 to 256 bytes"},
      {with("\"to\":1767225615", "\"to\":1"), "\"to\" must not be before \"from\""},
  };
  for (const auto& one : cases) {
    const auto read = parse_saved_use(one.text);
    ASSERT_FALSE(read) << one.text;
    EXPECT_THAT(read.error().message, HasSubstr(one.sentence)) << one.text;
  }
}

TEST(SavedUseJson, RefusesMoreSharesThanAnAccountHas) {
  SavedUse saved = account().saved(after(20));
  saved.shares.resize(1);
  saved.shares.resize(kSharesMax + 1, saved.shares[0]);
  const auto read = parse_saved_use(saved_use_json(saved, std::size_t{1} << 30));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("at most 10000 shares"));
}

// Whatever happens to the file, it is refused or is an account that can be continued and saved.
TEST(SavedUseJson, AChangedFileIsReadOrRefused) {
  const std::string good = saved_use_json(account().saved(after(20)));
  std::mt19937 random(1);
  for (int i = 0; i < 3'000; ++i) {
    std::string text = good;
    for (int changes = 0; changes < 3; ++changes) {
      text[random() % text.size()] = "0123456789\"{}[],:-x\xFF"[random() % 20];
    }
    const auto read = parse_saved_use(text);
    if (!read) continue;
    UseAccount continued(*read, after(30));
    continued.add(after(40), {share("a", 10), share("b", 10)}, true);
    EXPECT_TRUE(parse_saved_use(saved_use_json(continued.saved(after(50)))));
  }
}

}  // namespace
}  // namespace mgpu::plugin
