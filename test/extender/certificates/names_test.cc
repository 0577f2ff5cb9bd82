#include "extender/certificates/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "extender/certificates/limits.h"

namespace mgpu::extender {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string problem_of(const std::string& text) {
  const auto names = parse_server_names(text);
  return names ? "" : names.error().message;
}

TEST(ServerNames, AreDnsNamesAndIpAddressesInTheirUsualForm) {
  const auto names = parse_server_names(
      "mgpu-extender.kube-system.svc, 10.96.0.20 ,LOCALHOST,2001:DB8:0:0::1,10.96.0.20");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_THAT(*names, ElementsAre("10.96.0.20", "2001:db8::1", "localhost",
                                  "mgpu-extender.kube-system.svc"));
}

TEST(ServerNames, OtherTextsAreRefusedByName) {
  const std::string long_label(64, 'a');
  for (const std::string& text :
       {std::string("a b"), std::string("10.96.0.300"), std::string("-a"), std::string("a-"),
        std::string("a..b"), std::string("a."), std::string("https://a"), std::string("a:1"),
        std::string("*.a"), std::string("a_b"), long_label, std::string("12345"),
        std::string("DNS:a")}) {
    EXPECT_EQ(problem_of("ok," + text), '"' + text + "\" is neither a DNS name nor an IP address");
  }
  EXPECT_THAT(problem_of(""), HasSubstr("\"\" is neither"));
  EXPECT_THAT(problem_of("a,,b"), HasSubstr("\"\" is neither"));
  EXPECT_THAT(problem_of("a,"), HasSubstr("\"\" is neither"));
}

TEST(ServerNames, AreLimited) {
  std::string text = "n0";
  for (std::size_t i = 1; i < kServerNamesMax; ++i) text += ",n" + std::to_string(i);
  EXPECT_EQ(problem_of(text), "");
  EXPECT_EQ(problem_of(text + ",more"), "more than 64 names");
  std::string longest(62, 'a');
  while (longest.size() < kServerNameBytesMax - 1) longest += ".a";
  EXPECT_EQ(problem_of(longest), "");
  EXPECT_THAT(problem_of(longest + ".a"), HasSubstr("is neither"));
}

}  // namespace
}  // namespace mgpu::extender
