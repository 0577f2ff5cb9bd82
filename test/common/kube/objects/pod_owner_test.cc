#include "common/kube/objects/pod_owner.h"

#include <gtest/gtest.h>

namespace mgpu::kube {
namespace {

Pod pod_of(const std::string& kind, const std::string& name, const std::string& hash = "") {
  Pod pod;
  pod.metadata.name = "p";
  pod.metadata.controller = OwnerRef{kind, name};
  if (!hash.empty()) pod.metadata.labels["pod-template-hash"] = hash;
  return pod;
}

TEST(PodOwner, IsTheControllerOfThePod) {
  EXPECT_EQ(owner_of(pod_of("StatefulSet", "web")), (PodOwner{"StatefulSet", "web"}));
  EXPECT_EQ(owner_of(pod_of("Job", "train-29381")), (PodOwner{"Job", "train-29381"}));
  EXPECT_EQ(owner_of(pod_of("Node", "n1.example.com")), (PodOwner{"Node", "n1.example.com"}));
}

TEST(PodOwner, IsThePodItselfWithoutAController) {
  Pod pod;
  pod.metadata.name = "notebook";
  EXPECT_EQ(owner_of(pod), (PodOwner{"Pod", "notebook"}));
}

TEST(PodOwner, IsTheDeploymentOfAReplicaSet) {
  EXPECT_EQ(owner_of(pod_of("ReplicaSet", "web-a-5d9c", "5d9c")),
            (PodOwner{"Deployment", "web-a"}));
}

TEST(PodOwner, IsTheReplicaSetWhereItIsOfNoDeployment) {
  const struct {
    std::string name;
    std::string hash;
  } cases[] = {
      {"web-5d9c", ""},    {"web-5d9c", "5d9"}, {"web-5d9c", "web-5d9c"},     {"5d9c", "5d9c"},
      {"web5d9c", "5d9c"}, {"-5d9c", "5d9c"},   {"5d9c", "xxxxxxxxxxxx-5d9c"}};
  for (const auto& one : cases) {
    EXPECT_EQ(owner_of(pod_of("ReplicaSet", one.name, one.hash)),
              (PodOwner{"ReplicaSet", one.name}));
  }
}

TEST(PodOwner, IsThePodWhereTheControllerHasNoName) {
  const PodOwner pod{"Pod", "p"};
  for (const std::string& text : {std::string(), std::string("a\nb"), std::string("a b"),
                                  std::string("<b>"), std::string("\xE2\x80\xAE"),
                                  std::string("a/b"), std::string(254, 'a'), std::string(1, 0)}) {
    EXPECT_EQ(owner_of(pod_of("Job", text)), pod) << text;
    EXPECT_EQ(owner_of(pod_of(text, "a")), pod) << text;
  }
  EXPECT_EQ(owner_of(pod_of(std::string(64, 'K'), "a")), pod);
  EXPECT_NE(owner_of(pod_of(std::string(63, 'K'), std::string(253, 'a'))), pod);
}

}  // namespace
}  // namespace mgpu::kube
