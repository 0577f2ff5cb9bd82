#include "common/kube/watch/line_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace mgpu::kube {
namespace {

// The lines of `text` when it arrives in parts of `size` bytes.
std::string lines_in_parts_of(std::size_t size, std::string_view text) {
  LineBuffer buffer(8, 3);
  std::string lines;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size()))) {
    buffer.append(text.substr(0, size));
    lines += buffer.take(false);
  }
  return lines + buffer.take(true);
}

TEST(LineBuffer, GivesTheSameLinesForAllParts) {
  const std::string text = "one\n\ntwo\n12345678\n123456789\n\nthree\n1234567890123\nlast";
  const std::string lines = "one\n\ntwo\n12345678\n123\n\nthree\n123\nlast\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EXPECT_EQ(lines_in_parts_of(size, text), lines) << "in parts of " << size;
  }
}

TEST(LineBuffer, KeepsAnIncompleteLine) {
  LineBuffer buffer;
  buffer.append("one\ntw");
  EXPECT_EQ(buffer.take(false), "one\n");
  EXPECT_EQ(buffer.take(false), "");
  buffer.append("o\n");
  EXPECT_EQ(buffer.take(true), "two\n");
  EXPECT_EQ(buffer.take(true), "");
}

TEST(LineBuffer, CutsALineWhoseEndHasNotArrived) {
  LineBuffer buffer(8, 3);
  buffer.append("123456789");
  EXPECT_EQ(buffer.take(false), "");
  EXPECT_EQ(buffer.take(true), "123\n");
}

}  // namespace
}  // namespace mgpu::kube
