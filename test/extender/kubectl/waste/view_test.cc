// What kubectl mgpu waste prints, in every format.
#include "extender/kubectl/waste/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/base/rfc3339.h"
#include "extender/kubectl/doctor/read_facts.h"
#include "extender/kubectl/waste/csv.h"
#include "test/extender/kubectl/golden_view.h"

namespace mgpu::test {
namespace {

using namespace kubectl;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kGolden = MGPU_SOURCE_DIR "/test/golden/kubectl/";
constexpr std::int64_t kMargin = 20;

MeasuredShare measured_share(const std::string& name_space, const std::string& pod) {
  MeasuredShare share;
  share.pod = {name_space, pod};
  share.container = "app";
  share.uuid = "GPU-0";
  share.owner_kind = "Pod";
  share.owner = pod;
  share.core = 30;
  share.memory = 8'192;
  share.granted_hours = 7.2;
  share.used_hours = 0.9;
  share.measured_hours = 24;
  share.samples = 5'760;
  share.memory_peak = 1'800.4;
  share.core_p95 = 12.34;
  return share;
}

UseFacts some_facts() {
  UseFacts facts;
  facts.since = *read_rfc3339("2026-01-01T00:00:00Z");
  facts.until = *read_rfc3339("2026-01-02T00:00:00Z");
  facts.step = std::chrono::seconds(15);
  MeasuredShare first = measured_share("team-b", "web-7d9c-x");
  first.owner_kind = "Deployment";
  first.owner = "web";
  MeasuredShare second = first;
  second.pod.name = "web-7d9c-y";
  second.core_p95 = 28;
  second.used_hours = 6.5;
  MeasuredShare fresh = measured_share("research", "fresh");
  fresh.measured_hours = 0.5;
  fresh.granted_hours = 0.15;
  fresh.used_hours = 0.1;
  fresh.samples = 120;
  MeasuredShare blind = measured_share("research", "not-measured");
  blind.measured_hours = 0;
  blind.samples = 0;
  blind.used_hours.reset();
  blind.core_p95.reset();
  blind.memory_peak.reset();
  facts.shares = {measured_share("research", "notebook"), first, second, fresh, blind};
  return facts;
}

View view_by(WasteBy by, const UseFacts& facts) {
  return waste_view(waste_rows(facts.shares, by, kMargin), facts, by, true);
}

void expect_golden_waste(WasteBy by, const std::string& name) {
  const View view = view_by(by, some_facts());
  const std::pair<const char*, const char*> formats[] = {
      {"table", ".table.txt"}, {"wide", ".wide.txt"}, {"json", ".json"}, {"yaml", ".yaml"}};
  for (const auto& [format, ending] : formats) {
    expect_golden_text(shown_as(view, format, false).out, kGolden + name + ending);
  }
  expect_golden_text(shown_as(view, "table", true).out, kGolden + name + ".terminal.txt");
  expect_golden_text(waste_csv(waste_rows(some_facts().shares, by, kMargin), some_facts()),
                     kGolden + name + ".csv");
}

TEST(WasteView, OfPodsIsPrintedInEveryFormat) {
  expect_golden_waste(WasteBy::kPod, "waste");
}

TEST(WasteView, OfOwnersIsPrintedInEveryFormat) {
  expect_golden_waste(WasteBy::kOwner, "waste-owner");
}

TEST(WasteView, OfNamespacesIsPrintedInEveryFormat) {
  expect_golden_waste(WasteBy::kNamespace, "waste-namespace");
}

TEST(WasteView, HasAColumnOfWhatWasNotMeasuredWhereThereIsSome) {
  UseFacts facts = some_facts();
  const char* const column = "NOT MEASURED (GPU-H)";
  EXPECT_THAT(shown_as(view_by(WasteBy::kOwner, facts), "table", false).out, HasSubstr(column));
  facts.shares = {measured_share("a", "p")};
  EXPECT_THAT(shown_as(view_by(WasteBy::kOwner, facts), "table", false).out,
              Not(HasSubstr(column)));
}

UseFacts hostile_facts() {
  UseFacts facts = some_facts();
  MeasuredShare hostile = measured_share(hostile_text(), hostile_text());
  hostile.container = hostile_text();
  hostile.owner = hostile_text();
  hostile.owner_kind = hostile_text();
  facts.shares = {hostile};
  return facts;
}

TEST(WasteView, IsHarmlessWhateverTheNames) {
  for (const WasteBy by : {WasteBy::kPod, WasteBy::kOwner, WasteBy::kNamespace}) {
    const View view = view_by(by, hostile_facts());
    for (const char* format : {"wide", "json", "yaml"}) {
      const std::string text = shown_as(view, format, false).out;
      for (const char* mark : {"\x1b", "\r", "\u202e", "\u2066", "\u200b", "\xff", "\x9b"}) {
        EXPECT_EQ(text.find(mark), std::string::npos) << format;
      }
    }
    const std::string table = shown_as(view, "wide", false).out;
    EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 2);
  }
  const std::string csv =
      waste_csv(waste_rows(hostile_facts().shares, WasteBy::kPod, kMargin), hostile_facts());
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
  EXPECT_EQ(csv.find("\u202e"), std::string::npos);
}

TEST(WasteView, AcceptsAnyNumber) {
  UseFacts facts = some_facts();
  for (const double number : {0.0, 1e300, std::numeric_limits<double>::infinity()}) {
    MeasuredShare share = measured_share("a", "p");
    share.core = share.memory = share.granted_hours = share.measured_hours = number;
    share.used_hours = share.memory_peak = share.core_p95 = number;
    facts.shares = {share};
    for (const char* format : {"table", "json", "yaml"}) {
      EXPECT_FALSE(shown_as(view_by(WasteBy::kPod, facts), format, false).out.empty());
    }
  }
}

TEST(WasteView, SaysThatThereIsNothing) {
  UseFacts facts = some_facts();
  facts.shares.clear();
  const Shown shown = shown_as(view_by(WasteBy::kPod, facts), "table", false);
  EXPECT_THAT(shown.out, IsEmpty());
  EXPECT_EQ(shown.err,
            "No container held a share of a card. From Prometheus, since 2026-01-01T00:00:00Z "
            "until 2026-01-02T00:00:00Z, in steps of 15 seconds.\n");
}

TEST(TotalText, SaysWhatIsKnown) {
  EXPECT_EQ(total_text(waste_rows(some_facts().shares, WasteBy::kPod, kMargin)),
            "Granted 28.95 GPU-hours: used 8.40, wasted 13.35 (61% of what was measured), not "
            "measured 7.20.");
  EXPECT_EQ(total_text(waste_rows({measured_share("a", "p")}, WasteBy::kPod, kMargin)),
            "Granted 7.20 GPU-hours: used 0.90, wasted 6.30 (87% of what was measured).");
  MeasuredShare blind = measured_share("a", "p");
  blind.used_hours.reset();
  EXPECT_EQ(total_text(waste_rows({blind}, WasteBy::kPod, kMargin)),
            "Granted 7.20 GPU-hours; the use was not measured.");
}

// --- CSV -----------------------------------------------------------------------------------------

TEST(Csv, QuotesAsRfc4180Says) {
  EXPECT_EQ(csv_text("web-1"), "web-1");
  EXPECT_EQ(csv_text("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_text("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(csv_text(""), "");
  EXPECT_EQ(csv_line({"a", "", "1.5"}), "a,,1.5\r\n");
}

TEST(Csv, NoTextIsAFormula) {
  EXPECT_EQ(csv_text("=1+1"), "'=1+1");
  EXPECT_EQ(csv_text("+1"), "'+1");
  EXPECT_EQ(csv_text("-1"), "'-1");
  EXPECT_EQ(csv_text("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_text("  =1+1"), "'  =1+1");
  EXPECT_EQ(csv_text("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
  EXPECT_EQ(csv_text("a=b"), "a=b");
}

TEST(Csv, NoPartOfATextIsAFormulaWhereOtherSeparatorsSplitIt) {
  EXPECT_EQ(csv_text("a;b"), "\"a;b\"");
  EXPECT_EQ(csv_text("a;=1+1"), "\"a;'=1+1\"");
  EXPECT_EQ(csv_text("a; @x;-1"), "\"a;' @x;'-1\"");
  EXPECT_EQ(csv_text("a,+1"), "\"a,'+1\"");
  EXPECT_EQ(csv_text("a|=1"), "\"a|'=1\"");
  EXPECT_EQ(csv_text("a;\"=1"), "\"a;'\"\"=1\"");
}

TEST(Csv, ATextIsOneLineWithoutControlCharacters) {
  EXPECT_EQ(csv_text("a\r\nb\t"), "a\\u{d}\\u{a}b\\u{9}");
  EXPECT_EQ(csv_text("\t=1"), "\\u{9}=1");
}

}  // namespace
}  // namespace mgpu::test
