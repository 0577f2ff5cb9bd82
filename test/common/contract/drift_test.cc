#include "common/contract/drift.h"

#include <gtest/gtest.h>

#include <set>

namespace mgpu {
namespace {

TEST(DriftTexts, EveryKindHasItsOwn) {
  std::set<std::string_view> texts;
  for (const DriftKind kind : {DriftKind::kChangedAnnotations, DriftKind::kProcessWithoutShare,
                               DriftKind::kOverfullCard, DriftKind::kBindingWithoutCards}) {
    const DriftTexts found = texts_of(kind);
    for (const auto text : {found.name, found.sentence, found.remedy}) {
      EXPECT_TRUE(texts.insert(text).second) << text;
      EXPECT_FALSE(text.empty() || text.ends_with('.')) << text;
    }
  }
}

}  // namespace
}  // namespace mgpu
