#include "common/base/query_text.h"

#include <gtest/gtest.h>

namespace mgpu {
namespace {

TEST(QueryText, KeepsUnreservedCharactersAndEncodesOthers) {
  EXPECT_EQ(query_text("aZ0-._~"), "aZ0-._~");
  EXPECT_EQ(query_text("a b&c=d/e+f%"), "a%20b%26c%3Dd%2Fe%2Bf%25");
  EXPECT_EQ(query_text("\xC3\xA9\n"), "%C3%A9%0A");
}

}  // namespace
}  // namespace mgpu
