#include "extender/verbs/named_cards.h"

#include <gmock/gmock.h>

#include "test/support/ledger_text.h"

namespace mgpu::extender {
namespace {

struct NamedCards : testing::Test {
  NamedCards() {
    ledger.apply_node(mgpu::test::facts_of("n1: 0[100/1000 model=NVIDIA-A100 uuid=GPU-1]"));
    ledger.apply_node(mgpu::test::facts_of("n2: 0[100/1000 model=T4] 1[100/1000 model=t4]"));
  }
  std::string unmatched(const CardSelector& selector) {
    return unmatched_names(ledger.reader(), selector, *Contract::for_domain("d.io"));
  }
  Ledger ledger;
};

TEST_F(NamedCards, ModelsAreNamedOnce) {
  EXPECT_EQ(models_of(Ledger().reader()), "");
  const std::string models = models_of(ledger.reader());
  EXPECT_TRUE(models == "NVIDIA-A100 and T4" || models == "NVIDIA-A100 and t4") << models;
  for (int i = 0; i < 8; ++i) {
    const std::string node = "m" + std::to_string(i) + ": 0[100/1000 model=M" + std::to_string(i);
    ledger.apply_node(mgpu::test::facts_of(node + "]"));
  }
  EXPECT_EQ(models_of(ledger.reader()), "NVIDIA-A100, M0, M1, M2, M3, M4, M5, M6 and 2 more");
}

TEST_F(NamedCards, NamesOfCardsAreFound) {
  EXPECT_EQ(unmatched({}), "");
  EXPECT_EQ(unmatched({.models = {"a100"}, .models_excluded = {"T4", "nvidia-t4-shared"}}), "");
  EXPECT_EQ(unmatched({.uuids = {"GPU-1"}, .uuids_excluded = {"GPU-0"}}), "");
}

TEST_F(NamedCards, NamesWithoutACardAreReported) {
  EXPECT_THAT(unmatched({.models = {"A100", "H100"}}),
              testing::StartsWith("annotation d.io/gpu-model names \"H100\", and no card of the "
                                  "cluster has such a name; their models are NVIDIA-A100 and "));
  EXPECT_THAT(unmatched({.models_excluded = {"V100", "H100"}, .uuids_excluded = {"GPU-9"}}),
              testing::StartsWith("annotation d.io/gpu-model-exclude names \"V100\" and \"H100\"; "
                                  "annotation d.io/gpu-uuid-exclude names \"GPU-9\", and no card"));
}

TEST_F(NamedCards, NothingIsReportedBeforeThereAreCards) {
  EXPECT_EQ(unmatched_names(Ledger().reader(), {.models = {"H100"}}, *Contract::for_domain("d.io")),
            "");
}

}  // namespace
}  // namespace mgpu::extender
