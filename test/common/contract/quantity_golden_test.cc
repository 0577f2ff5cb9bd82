// Compares quantities with the results of apimachinery in test/golden/apimachinery-0.36.3.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/quantity.h"

namespace mgpu {
namespace {

struct Recorded {
  std::string text;
  std::string outcome;
  std::string canonical;  // "-" if apimachinery refuses the text
};

std::vector<Recorded> recorded() {
  std::ifstream file(MGPU_SOURCE_DIR "/test/golden/apimachinery-0.36.3/quantities.tsv");
  std::vector<Recorded> all;
  Recorded one;
  while (std::getline(file, one.text, '\t') && std::getline(file, one.outcome, '\t') &&
         std::getline(file, one.canonical)) {
    all.push_back(one);
  }
  return all;
}

// The outcome in the words of the recording.
std::string outcome_here(const std::string& text) {
  const auto value = parse_whole_quantity("x", text);
  if (value.has_value()) return std::to_string(*value);
  const std::string message = value.error().message;
  const std::pair<std::string_view, std::string_view> sentences[] = {
      {"a whole number such as", "invalid"},
      {"a whole number,", "fraction"},
      {"zero or more", "negative"},
      {"at most 2^62", "huge"}};
  for (const auto& [words, outcome] : sentences) {
    if (message.find(words) != std::string::npos) return std::string(outcome);
  }
  return message;
}

bool has_digit(const std::string& text) {
  return text.find_first_of("0123456789") != std::string::npos;
}

// apimachinery reads "k" and "E3" as zero.
bool has_number(const std::string& text) {
  return has_digit(text.substr(0, text.find_first_of("eEinumkKMGTP")));
}

TEST(RecordedQuantities, AreManyOfEachKind) {
  const auto all = recorded();
  EXPECT_GT(all.size(), 900U);
  for (const std::string outcome : {"invalid", "fraction", "negative", "huge", "0"}) {
    EXPECT_GT(std::count_if(all.begin(), all.end(),
                            [&](const Recorded& one) { return one.outcome == outcome; }),
              20)
        << outcome;
  }
}

TEST(RecordedQuantities, AreReadAsApimachineryReadsThem) {
  for (const Recorded& one : recorded()) {
    const bool capped =
        one.canonical == "9223372036854775807";  // was a fraction before it was limited
    if (capped) continue;
    EXPECT_EQ(outcome_here(one.text), has_number(one.text) ? one.outcome : "invalid") << one.text;
  }
}

TEST(RecordedQuantities, AreReadInTheirCanonicalForm) {
  for (const Recorded& one : recorded()) {
    if (one.canonical == "-") continue;
    EXPECT_EQ(outcome_here(one.canonical), one.outcome) << one.text << " as " << one.canonical;
  }
}

// apimachinery keeps some texts unchanged, such as "0040130m"; canonical_quantity() does not.
TEST(RecordedQuantities, AreWrittenAsApimachineryWritesThem) {
  for (const Recorded& one : recorded()) {
    if (one.canonical == one.text || !has_number(one.text)) continue;
    const auto canonical = canonical_quantity(one.text);
    EXPECT_EQ(canonical ? canonical->text : "-", one.canonical) << one.text;
  }
}

}  // namespace
}  // namespace mgpu
