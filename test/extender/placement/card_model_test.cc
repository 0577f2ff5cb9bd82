#include "extender/placement/card_model.h"

#include <gtest/gtest.h>

namespace mgpu::extender {
namespace {

TEST(ModelNames, CompareAsPeopleWriteThem) {
  struct {
    const char* a;
    const char* b;
    bool same;
    bool less;
  } const cases[] = {
      {"A100", "a100", true, false},
      {"", "", true, false},
      {"A10", "a100", false, true},
      {"NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", true, false},
      {"NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", true, false},
      {"NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb-shared", true, false},
      {"NVIDIA H100 80GB HBM3", " H100_80GB - HBM3 ", true, false},
      {"Tesla T4", "nvidia-tesla-t4", true, false},
      {"NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal", true, false},
      {"NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", false, true},
      {"NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-40GB", false, false},
      {"NVIDIA A10", "NVIDIA A10G", false, true},
      {"A 100", "A100", false, true},
      {"NVIDIA", "nvidia", true, false},
      {"NVIDIA-SHARED", "SHARED", true, false},
      {"b", "A", false, false},
      {"a", "B", false, true},
      // Only letters of ASCII have a case.
      {"\xc3\x84", "\xc3\xa4", false, true},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(same_model(test.a, test.b), test.same) << test.a << " " << test.b;
    EXPECT_EQ(ModelLess{}(test.a, test.b), test.less) << test.a << " " << test.b;
    EXPECT_FALSE(ModelLess{}(test.a, test.b) && ModelLess{}(test.b, test.a));
  }
}

TEST(ModelNames, APartNamesEachModelWithItsWords) {
  struct {
    const char* name;
    const char* model;
    bool names;
  } const cases[] = {
      {"A100", "NVIDIA A100-SXM4-80GB", true},
      {"a100", "NVIDIA A100-PCIE-40GB", true},
      {"A100 80GB", "NVIDIA A100-SXM4-80GB", true},
      {"A100-80GB-SHARED", "NVIDIA A100-SXM4-80GB", true},
      {"SXM4", "NVIDIA A100-SXM4-80GB", true},
      {"80GB A100", "NVIDIA A100-SXM4-80GB", false},
      {"A10", "NVIDIA A100-SXM4-80GB", false},
      {"A1000", "NVIDIA A100-SXM4-80GB", false},
      {"A100 A100", "NVIDIA A100-SXM4-80GB", false},
      {"A100 SXM4 80GB HBM2", "NVIDIA A100-SXM4-80GB", false},
      {"T4", "Tesla T4", true},
      {"H200", "NVIDIA H200 NVL", true},
      // A whole name.
      {"NVIDIA H200", "NVIDIA H200", true},
      {"NVIDIA H200", "NVIDIA H200 NVL", false},
      {"nvidia-h200-shared", "NVIDIA H200 NVL", false},
      {"nvidia-tesla-t4", "Tesla T4", true},
      {"NVIDIA", "NVIDIA H200", false},
      // An instance is not the card.
      {"A100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", false},
      {"A100 MIG 1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", true},
      {"MIG", "NVIDIA A100-SXM4-80GB", false},
      // No words.
      {"-", "NVIDIA H200", false},
      {"()", "NVIDIA H200", false},
      {"H200", "", false},
  };
  for (const auto& test : cases)
    EXPECT_EQ(names_model(test.name, test.model), test.names) << test.name << " " << test.model;
}

TEST(AcceptsModel, ByBothLists) {
  EXPECT_TRUE(accepts_model({"A100"}, {"80GB"}, "NVIDIA A100-SXM4-40GB"));
  EXPECT_FALSE(accepts_model({"A100"}, {"80GB"}, "NVIDIA A100-SXM4-80GB"));
  EXPECT_TRUE(accepts_model({}, {}, "T4"));
  // A MIG device must be named.
  EXPECT_FALSE(accepts_model({}, {}, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"));
  EXPECT_TRUE(accepts_model({"MIG"}, {}, "NVIDIA A100-SXM4-40GB MIG 1g.5gb"));
  EXPECT_TRUE(accepts_model({}, {}, ""));
  EXPECT_TRUE(accepts_model({"P100", "t4"}, {}, "T4"));
  EXPECT_FALSE(accepts_model({"P100"}, {}, "T4"));
  EXPECT_FALSE(accepts_model({}, {"t4"}, "T4"));
  EXPECT_TRUE(accepts_model({}, {"T40"}, "T4"));
  EXPECT_FALSE(accepts_model({"T4"}, {"T4"}, "T4"));
}

}  // namespace
}  // namespace mgpu::extender
