#include "extender/bind/bindable_pod.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/kube/objects/object_json.h"
#include "test/extender/verbs/verbs_world.h"

namespace mgpu::extender {
namespace {

using testing::HasSubstr;

kube::Pod pod_of(const test::PodText& text) {
  kube::Pod pod = *kube::read_pod(test::pod_json(text));
  pod.metadata.resource_version = "7";
  return pod;
}

TEST(BindablePod, HasWhatBindNeeds) {
  kube::Pod pod = pod_of({.priority = 5});
  pod.start_time = "2026-01-01T00:00:00Z";
  pod.metadata.labels = {{"a", "b"}};
  const auto bindable = read_bindable_pod(pod, test::options_of());
  ASSERT_TRUE(bindable) << bindable.error().message;
  EXPECT_EQ(bindable->ref, pod.ref());
  EXPECT_EQ(bindable->uid, pod.uid());
  EXPECT_EQ(bindable->resource_version, "7");
  EXPECT_EQ(bindable->request.request.containers.size(), 1u);
  EXPECT_EQ(bindable->priority, 5);
  EXPECT_EQ(bindable->start_time, pod.start_time);
  EXPECT_EQ(bindable->labels, pod.metadata.labels);
}

TEST(BindablePod, NamesAResourceAndHasAVersion) {
  const VerbOptions options = test::options_of();
  for (const char* amounts : {"30/1024", "0", "100"}) {
    EXPECT_TRUE(read_bindable_pod(pod_of({.requests = {"", amounts}}), options)) << amounts;
  }
  EXPECT_THAT(read_bindable_pod(pod_of({.requests = {"", ""}}), options).error().message,
              HasSubstr("no container names"));
  kube::Pod without_version = pod_of({});
  without_version.metadata.resource_version.clear();
  EXPECT_THAT(read_bindable_pod(without_version, options).error().message,
              HasSubstr("metadata.resourceVersion is missing"));
}

TEST(BindablePod, AnotherAmountPolicyOrSelectorIsAnotherRequest) {
  const VerbOptions options = test::options_of();
  const auto read = [&](const test::PodText& text) {
    return *read_bindable_pod(pod_of(text), options);
  };
  const BindablePod first = read({});
  BindablePod same = read({});
  same.resource_version = "8";
  same.labels["a"] = "b";
  EXPECT_TRUE(same_request(first, same));
  EXPECT_FALSE(same_request(first, read({.requests = {"31/1024"}})));
  for (const char* annotation :
       {R"("vke.volcengine.com/mgpu-policy":"spread")", R"("vke.volcengine.com/gpu-model":"V100")",
        R"("vke.volcengine.com/container-multiple-gpu":"2")"}) {
    EXPECT_FALSE(same_request(first, read({.annotations = annotation}))) << annotation;
  }
}

}  // namespace
}  // namespace mgpu::extender
