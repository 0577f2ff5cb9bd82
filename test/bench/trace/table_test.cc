#include "bench/trace/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "bench/trace/limits.h"

namespace mgpu::trace {
namespace {

using testing::ElementsAre;

constexpr std::array<std::string_view, 1> kFirst = {"a"};

// The values of two columns in each row, such as "x=1", until a problem.
std::vector<std::string> read(std::string_view text, std::string& problem,
                              std::size_t rows_max = 10,
                              std::span<const std::string_view> columns = {}) {
  std::vector<std::string> rows;
  const auto done = read_table(text, "pods.csv", rows_max, columns, [&](Row& row) {
    rows.push_back(std::string(row.text("name")) + "=" + std::string(row.text("cpu")));
  });
  problem = done ? "" : done.error().message;
  return rows;
}

std::string problem_of(std::string_view text, std::size_t rows_max = 10,
                       std::span<const std::string_view> columns = {}) {
  std::string problem;
  read(text, problem, rows_max, columns);
  return problem;
}

TEST(Table, FindsValuesByTheNamesOfTheirColumns) {
  std::string problem;
  EXPECT_THAT(read("cpu,more,name\n1,x,a\n2,,b\n", problem), ElementsAre("a=1", "b=2"));
  EXPECT_EQ(problem, "");
  EXPECT_THAT(read("name\na\n", problem), ElementsAre("a="));
}

TEST(Table, TakesEitherLineEndEmptyLinesAndAByteOrderMark) {
  std::string problem;
  EXPECT_THAT(read("\xEF\xBB\xBFname,cpu\r\na,1\r\n\r\n\nb,2", problem), ElementsAre("a=1", "b=2"));
  EXPECT_THAT(read("name,cpu\n,\n", problem), ElementsAre("="));
  EXPECT_EQ(problem, "");
}

struct RefusedTable {
  std::string_view text;
  std::string_view sentence;
};

class TableRefuses : public testing::TestWithParam<RefusedTable> {};

TEST_P(TableRefuses, NamingTheLine) {
  EXPECT_EQ(problem_of(GetParam().text, 2), GetParam().sentence);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, TableRefuses,
    testing::Values(
        RefusedTable{"", "pods.csv is empty; expected a first line that names the columns"},
        RefusedTable{"\n\n", "pods.csv is empty; expected a first line that names the columns"},
        RefusedTable{"\r\na,a\n", "pods.csv line 2: names the column \"a\" twice"},
        RefusedTable{"a,b,a\n", "pods.csv line 1: names the column \"a\" twice"},
        RefusedTable{
            "a,b\n1,2\n\n1\n",
            "pods.csv line 4: has 1 values; expected one for each of the 2 columns \"a,b\""},
        RefusedTable{
            "a,b\n1,2,3\n",
            "pods.csv line 2: has 3 values; expected one for each of the 2 columns \"a,b\""},
        RefusedTable{"a\n1\n2\n3\n", "pods.csv line 4: expected at most 2 rows"}));

TEST(Table, RefusesLongLinesAndManyColumns) {
  const std::string longest(limits::kLineBytesMax, 'x');
  EXPECT_EQ(problem_of("a\n" + longest + "\n"), "");
  EXPECT_EQ(problem_of("a\n" + longest + "x\n"),
            "pods.csv line 2: has 4097 bytes; expected at most 4096");
  std::string header = "c0";
  for (int i = 1; i < 64; ++i) header += ",c" + std::to_string(i);
  EXPECT_EQ(problem_of(header), "");
  EXPECT_EQ(problem_of(header + ",more"), "pods.csv line 1: names 65 columns; expected at most 64");
}

TEST(Table, SaysWhichColumnIsMissingAndWhichThereAre) {
  EXPECT_EQ(problem_of("b,c\n", 10, kFirst), "pods.csv line 1: has no column a; it names \"b,c\"");
}

std::string problem_of_number(const std::string& value) {
  const auto done = read_table("name,cpu\nz,0\na," + value + "\n", "pods.csv", 10, {},
                               [](Row& row) { row.number("cpu", 0, 64); });
  return done ? "" : done.error().message;
}

class NumberRefuses : public testing::TestWithParam<std::string> {};

TEST_P(NumberRefuses, WhatIsNotAWholeNumberInItsRange) {
  EXPECT_EQ(problem_of_number(GetParam()), "pods.csv line 3, column cpu: \"" + GetParam() +
                                               "\"; expected a whole number from 0 to 64");
}

INSTANTIATE_TEST_SUITE_P(Values, NumberRefuses,
                         testing::Values("", "x", "1.5", "1 ", " 1", "+1", "-1", "65", "1e3",
                                         "99999999999999999999999"));

TEST(Table, CutsALongValueInItsSentence) {
  EXPECT_LT(problem_of_number(std::string(3000, '7')).size(), 300U);
}

}  // namespace
}  // namespace mgpu::trace
