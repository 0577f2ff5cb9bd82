#include "common/base/result.h"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <unordered_set>

#include "common/base/ids.h"

namespace mgpu {
namespace {

static_assert(!std::is_convertible_v<std::string, Error>);
static_assert(!std::is_convertible_v<std::string, NodeName>);
static_assert(!std::is_constructible_v<NodeName, PodUid>);

Result<std::string> greeting(bool fails) {
  if (fails) return error("nobody is there");
  return std::string("hello");
}

TEST(Result, IsAValueOrASentence) {
  EXPECT_EQ(*greeting(false), "hello");
  ASSERT_TRUE(greeting(true).has_error());
  EXPECT_EQ(greeting(true).error().message, "nobody is there");
}

TEST(Result, ValueOfAnErrorAbortsWithItsSentence) {
  EXPECT_DEATH(greeting(true).value(), "check failed: result has a value: nobody is there");
}

TEST(Name, ComparesAndHashesAsItsText) {
  EXPECT_EQ(NodeName("n1"), NodeName(std::string("n1")));
  EXPECT_LT(NodeName("n1"), NodeName("n2"));
  EXPECT_TRUE(NodeName().empty());
  const std::unordered_set<NodeName> names{NodeName("a"), NodeName("b"), NodeName("a")};
  EXPECT_EQ(names.size(), 2U);
}

TEST(PodRef, IsNamespaceAndName) {
  EXPECT_EQ(to_string(PodRef{"default", "a"}), "default/a");
}

}  // namespace
}  // namespace mgpu
