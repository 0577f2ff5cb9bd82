#include "common/contract/pod_requests.h"

#include <gtest/gtest.h>

#include "common/base/units.h"

namespace mgpu {
namespace {

using Requests = PodRequests<std::int64_t>;

TEST(PodRequests, AreZeroWithoutContainers) {
  EXPECT_EQ(Requests().peak(), 0);
}

TEST(PodRequests, AreTheSumOfAppContainersAndSidecars) {
  Requests requests;
  requests.add_lasting(2);
  requests.add_lasting(3);
  EXPECT_EQ(requests.peak(), 5);
}

TEST(PodRequests, AreThoseOfTheLargestInitContainerIfItIsLarger) {
  Requests requests;
  requests.add_init(4);
  requests.add_init(7);
  requests.add_init(6);
  requests.add_lasting(5);
  EXPECT_EQ(requests.peak(), 7);
}

TEST(PodRequests, CountTheSidecarsBeforeAnInitContainer) {
  Requests requests;
  requests.add_init(7);
  requests.add_lasting(2);
  requests.add_init(6);
  requests.add_lasting(1);
  requests.add_lasting(4);
  EXPECT_EQ(requests.peak(), 8);
  requests.add_lasting(2);
  EXPECT_EQ(requests.peak(), 9);
}

TEST(PodRequests, AreComputedInEachDimension) {
  PodRequests<Share> requests;
  requests.add_init({Percent(90), MiB(10)});
  requests.add_lasting({Percent(20), MiB(500)});
  EXPECT_EQ(requests.peak(), (Share{Percent(90), MiB(500)}));
}

}  // namespace
}  // namespace mgpu
