// No two types of the product have the same name. extender_test and the programs link only if
// functions are defined once, but nothing notices two classes whose functions are inline.
#include "test/support/duplicate_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

namespace mgpu::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> complaints(const std::string& a, const std::string& b) {
  return duplicate_types({{"a.h", a}, {"b.h", b}});
}

TEST(Tree, HasEachTypeOnce) {
  std::vector<SourceFile> files;
  for (const char* folder : {"common", "extender", "plugin", "bench"}) {
    auto more = read_sources(MGPU_SOURCE_DIR, folder, {".h", ".cc"});
    std::ranges::move(more, std::back_inserter(files));
  }
  EXPECT_THAT(duplicate_types(files), IsEmpty());
}

TEST(DuplicateTypes, AreFoundInTheSameNamespace) {
  EXPECT_THAT(complaints("namespace x {\nclass A {\n};\n}  // namespace x\n",
                         "namespace x {\n\nstruct A final : B {\n};\n}  // namespace x\n"),
              ElementsAre("b.h:3: x::A is also a type of a.h: rename one of them, or move it to an "
                          "anonymous namespace"));
}

TEST(DuplicateTypes, MayHaveTheSameNameInOtherNamespaces) {
  EXPECT_THAT(complaints("namespace x {\nstruct A {};\n}  // namespace x\n",
                         "namespace y {\nstruct A {};\n}  // namespace y\n"),
              IsEmpty());
}

TEST(DuplicateTypes, MayBeInAnonymousNamespacesAndInClasses) {
  const std::string local =
      "namespace x {\nnamespace {\nenum class A { kB };\n}  // namespace\n"
      "class B;\nstruct C1 {\n  struct D {};\n};\n}  // namespace x\n";
  const std::string other =
      "namespace x {\nstruct A {};\nstruct B {};\nstruct C2 {\n"
      "  struct D {};\n};\n}  // namespace x\n";
  EXPECT_THAT(complaints(local, other), IsEmpty());
}

}  // namespace
}  // namespace mgpu::test
