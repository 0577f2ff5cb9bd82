#include "bench/trace/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/trace/limits.h"

namespace mgpu::trace {
namespace {

using testing::HasSubstr;

std::string problem_of(std::string_view text, std::size_t rows_max = 10) {
  const auto table = Table::read(text, "pods.csv", rows_max);
  return table ? "" : table.error().message;
}

Table table_of(std::string_view text) {
  auto table = Table::read(text, "pods.csv", 10);
  EXPECT_TRUE(table) << (table ? "" : table.error().message);
  return *table;
}

TEST(Table, FindsValuesByTheNamesOfTheirColumns) {
  const Table table = table_of("name,cpu\na,1\nb,2\n");
  EXPECT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.text(1, *table.column("name")), "b");
  EXPECT_EQ(*table.number(1, *table.column("cpu"), 0, 9), 2);
  EXPECT_EQ(table.find_column("gpu"), -1);
}

TEST(Table, TakesEitherLineEndEmptyLinesAndAByteOrderMark) {
  const Table table = table_of("\xEF\xBB\xBFname,cpu\r\na,1\r\n\r\n\nb,2");
  EXPECT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.text(0, *table.column("name")), "a");
  EXPECT_EQ(table.text(1, *table.column("cpu")), "2");
}

TEST(Table, KeepsEmptyValues) {
  const Table table = table_of("a,b,c\n,,\n");
  EXPECT_EQ(table.text(0, 2), "");
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
  EXPECT_EQ(table_of("a,b\n").column("cpu").error().message,
            "pods.csv line 1: has no column cpu; it names \"a,b\"");
}

class NumberRefuses : public testing::TestWithParam<std::string_view> {};

TEST_P(NumberRefuses, WhatIsNotAWholeNumberInItsRange) {
  const std::string text = "name,cpu\nz,0\na," + std::string(GetParam()) + "\n";
  const Table table = table_of(text);
  const auto number = table.number(1, 1, 0, 64);
  ASSERT_FALSE(number);
  EXPECT_EQ(number.error().message, "pods.csv line 3, column cpu: \"" + std::string(GetParam()) +
                                        "\"; expected a whole number from 0 to 64");
}

INSTANTIATE_TEST_SUITE_P(Values, NumberRefuses,
                         testing::Values("", "x", "1.5", "1 ", " 1", "+1", "-1", "65", "1e3",
                                         "99999999999999999999999"));

TEST(Table, CutsALongValueInItsSentence) {
  const std::string text = "name,cpu\na," + std::string(3000, '7') + "\n";
  const Table table = table_of(text);
  EXPECT_LT(table.number(0, 1, 0, 1).error().message.size(), 300U);
}

}  // namespace
}  // namespace mgpu::trace
