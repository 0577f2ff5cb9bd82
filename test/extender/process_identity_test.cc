#include "extender/process_identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <set>

namespace mgpu::extender {
namespace {

TEST(ProcessIdentity, BeginsWithTheNameOfTheHost) {
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_TRUE(process_identity().starts_with(std::string(host.data()) + "_")) << process_identity();
}

TEST(ProcessIdentity, IsNeverTheSame) {
  std::set<std::string> identities;
  for (int i = 0; i < 1'000; ++i) identities.insert(process_identity());
  EXPECT_EQ(identities.size(), 1'000u);
}

}  // namespace
}  // namespace mgpu::extender
