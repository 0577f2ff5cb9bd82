#include "common/contract/gpu_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/contract/limits.h"
#include "test/support/cluster_text.h"

namespace mgpu {
namespace {

using test::placement_of;
using test::text_of;
using testing::HasSubstr;

const std::string kDomain(kDefaultResourceDomain);
const std::string kCore = kDomain + "/mgpu-core";
const std::string kMemory = kDomain + "/mgpu-memory";

const Contract& contract() {
  static const Contract value = Contract::for_domain(kDefaultResourceDomain).value();
  return value;
}

// Empty amounts are left out.
kube::Container container(const std::string& name, const std::string& core,
                          const std::string& memory) {
  kube::Container container;
  container.name = name;
  if (!core.empty()) container.limits[kCore] = core;
  if (!memory.empty()) container.limits[kMemory] = memory;
  return container;
}

kube::Pod pod_of(std::vector<kube::Container> containers, const std::string& counts = "") {
  kube::Pod pod;
  pod.containers = std::move(containers);
  if (!counts.empty()) pod.metadata.annotations[kDomain + "/container-multiple-gpu"] = counts;
  return pod;
}

Result<GpuRequest> read(const kube::Pod& pod) {
  return read_request(pod, contract(), MiB(256));
}

std::string text_of_container(const ContainerRequest& container) {
  const char* kinds[] = {"init:", "side:", ""};
  const std::string share = container.whole ? "whole" : text_of(container.per_card);
  return container.name + "=" + kinds[static_cast<int>(container.kind)] + share +
         (container.cards == 1 ? "" : "x" + std::to_string(container.cards));
}

// "app=30/1024", or the sentence of the error.
std::string outcome(const kube::Pod& pod) {
  const auto request = read(pod);
  if (!request) return request.error().message;
  std::string text;
  for (const auto& asked : request->containers) {
    text += (text.empty() ? "" : " ") + text_of_container(asked);
  }
  return text;
}

struct Case {
  const char* core;
  const char* memory;
  const char* counts;
  const char* outcome;
};

TEST(ReadRequest, ReadsEveryRowOfTheTable) {
  const Case cases[] = {
      // A share of one card.
      {"30", "1024", "", "app=30/1024"},
      {"1", "256", "", "app=1/256"},
      {"100", "8000", "", "app=100/8000"},
      // Whole cards.
      {"100", "", "", "app=whole"},
      {"100", "0", "", "app=whole"},
      {"200", "", "", "app=wholex2"},
      {"6400", "", "", "app=wholex64"},
      // Several cards with memory.
      {"200", "8000", "", "app=100/4000x2"},
      {"400", "1024", "", "app=100/256x4"},
      // Split over cards by the annotation.
      {"100", "8000", "2", "app=50/4000x2"},
      {"60", "3000", "3", "app=20/1000x3"},
      {"150", "2000", "2", "app=75/1000x2"},
      {"200", "8000", "2", "app=100/4000x2"},
      {"300", "", "3", "app=wholex3"},
      {"30", "1024", "1", "app=30/1024"},
      {"100", "", "1", "app=whole"},
      // No cards.
      {"", "", "", ""},
      {"0", "0", "", ""},
      {"0", "", "", ""},
      {"", "", "0", ""},
      // Quantities in the canonical form of the API server.
      {"100", "8k", "", "app=100/8000"},
      {"0.2k", "8Ki", "", "app=100/4096x2"},
      {"50000m", "1e3", "", "app=50/1000"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(outcome(pod_of({container("app", test.core, test.memory)}, test.counts)),
              test.outcome)
        << test.core << " " << test.memory << " " << test.counts;
  }
}

TEST(ReadRequest, RefusesEachMistakeWithItsOwnSentence) {
  const std::string requests = "container \"app\" requests " + kDomain;
  const std::string key = "annotation " + kDomain + "/container-multiple-gpu";
  const std::tuple<Case, std::string> cases[] = {
      {{"", "1024", "", ""}, requests + "/mgpu-memory 1024 without " + kCore},
      {{"0", "1024", "", ""}, requests + "/mgpu-memory 1024 without " + kCore},
      {{"30", "", "", ""},
       "container \"app\" asks for mgpu-core 30 and no mgpu-memory; add mgpu-memory in MiB, or ask "
       "for a whole card (mgpu-core 100)"},
      {{"150", "", "2", ""},
       "asks for mgpu-core 150 on 2 cards and no mgpu-memory; add mgpu-memory in MiB, or ask for "
       "whole cards (mgpu-core 200)"},
      {{"150", "2000", "", ""}, requests + "/mgpu-core 150; over 100 it must be a multiple of 100"},
      {{"101", "", "", ""}, requests + "/mgpu-core 101; over 100 it must be a multiple of 100"},
      {{"100", "8000", "3", ""},
       requests + "/mgpu-core 100, which is not divisible by its 3 cards"},
      {{"2", "8000", "4", ""}, requests + "/mgpu-core 2, which is not divisible by its 4 cards"},
      {{"200", "8001", "", ""},
       requests + "/mgpu-memory 8001, which is not divisible by its 2 cards"},
      {{"60", "8000", "3", ""},
       requests + "/mgpu-memory 8000, which is not divisible by its 3 cards"},
      {{"300", "8000", "2", ""}, requests + "/mgpu-core 300 on 2 cards, that is 150 of each"},
      {{"200", "8000", "1", ""}, requests + "/mgpu-core 200 on 1 card, that is 200 of each"},
      {{"30", "255", "", ""},
       requests + "/mgpu-memory 255 MiB of one card; it must be at least 256 MiB"},
      {{"60", "512", "4", ""},
       requests + "/mgpu-memory 128 MiB of one card; it must be at least 256 MiB"},
      {{"200", "510", "", ""},
       requests + "/mgpu-memory 255 MiB of one card; it must be at least 256 MiB"},
      {{"30", "8Gi", "", ""},
       requests + "/mgpu-memory 8589934592 MiB of one card; it must be at most 16777216 MiB (the "
                  "unit is MiB: 8 GiB is 8192 or 8Ki, not 8Gi)"},
      {{"6500", "", "", ""},
       requests + "/mgpu-core 6500, that is 65 cards; a container may have at"},
      {{"4E", "4E", "", ""}, "a container may have at most 64"},
      {{"30", "1024", "0", ""}, requests + "/mgpu-core 30 but has 0 in " + key},
      {{"", "", "1", ""}, "container \"app\" has 1 in " + key + " but requests no " + kCore},
      {{"30", "1024", "1,1", ""}, key + " \"1,1\" has 2 numbers; the pod has 1 container, and"},
      {{"30", "1024", "two", ""}, key + ": card count list \"two\""},
      {{"30", "1024", "-1", ""}, key + ": card count list \"-1\""},
      {{"30", "1024", "65", ""}, key + ": card count list \"65\""},
      {{"0.5", "1024", "", ""}, "limits " + kCore + " of container \"app\" must be a whole number"},
      {{"-1", "1024", "", ""}, "limits " + kCore + " of container \"app\" must be zero or more"},
      {{"30", "9E", "", ""}, "limits " + kMemory + " of container \"app\" must be at most 2^62"},
      {{"30", "much", "", ""}, "limits " + kMemory + " of container \"app\""},
      {{"30", " ", "", ""}, "limits " + kMemory + " of container \"app\""},
  };
  for (const auto& [test, sentence] : cases) {
    const kube::Pod pod = pod_of({container("app", test.core, test.memory)}, test.counts);
    const auto request = read(pod);
    ASSERT_FALSE(request) << sentence;
    EXPECT_THAT(request.error().message, HasSubstr(sentence));
    EXPECT_FALSE(request.error().message.ends_with('.'));
  }
}

TEST(ReadRequest, RefusesAnEmptyAnnotation) {
  kube::Pod pod = pod_of({container("app", "30", "1024")});
  pod.metadata.annotations[kDomain + "/container-multiple-gpu"] = "";
  EXPECT_FALSE(read(pod));
}

TEST(ReadRequest, ReadsRequestsOnlyWhereThereAreNoLimits) {
  kube::Container app = container("app", "", "");
  app.requests = {{kCore, "30"}, {kMemory, "1024"}};
  EXPECT_EQ(outcome(pod_of({app})), "app=30/1024");
  app.limits = {{kCore, "30"}, {kMemory, "1Ki"}};
  EXPECT_EQ(outcome(pod_of({app})), "app=30/1024");
  app.limits[kMemory] = "2048";
  EXPECT_THAT(outcome(pod_of({app})), HasSubstr("2048 and requests 1024; they must be equal"));
  app.requests[kMemory] = "many";
  EXPECT_THAT(outcome(pod_of({app})), HasSubstr("requests " + kMemory + " of container \"app\""));
}

TEST(ReadRequest, KeepsSpecOrderAndLeavesOutContainersWithoutCards) {
  kube::Pod pod = pod_of(
      {container("a", "30", "1024"), container("b", "", ""), container("c", "200", "")}, "1,0,2");
  pod.init_containers = {container("i", "50", "2048"), container("j", "", ""),
                         container("s", "10", "512")};
  pod.init_containers[2].restart_always = true;
  EXPECT_EQ(outcome(pod), "i=init:50/2048 s=side:10/512 a=30/1024 c=wholex2");
}

TEST(ReadRequest, TheAnnotationCountsAppContainersOnly) {
  kube::Pod pod = pod_of({container("a", "100", "2000")}, "2");
  pod.init_containers = {container("i", "200", "")};
  EXPECT_EQ(outcome(pod), "i=init:wholex2 a=50/1000x2");
  pod = pod_of({container("a", "100", "2000")}, "0,2");
  pod.init_containers = {container("i", "", "")};
  EXPECT_THAT(outcome(pod), HasSubstr("has 2 numbers; the pod has 1 container, and"));
}

TEST(ReadRequest, TheAnnotationMayNameContainers) {
  const auto named = [](const char* counts) {
    return outcome(pod_of({container("side", "", ""), container("train", "120", "4000"),
                           container("eval", "200", "")},
                          counts));
  };
  EXPECT_EQ(named("train=2"), "train=60/2000x2 eval=wholex2");
  EXPECT_EQ(named(" eval = 2 , train=4,side=0"), "train=30/1000x4 eval=wholex2");
  EXPECT_THAT(named("train=0"), HasSubstr("but has 0 in annotation"));
  EXPECT_THAT(named("side=1,train=2"), HasSubstr("\"side\" has 1 in annotation"));
  EXPECT_THAT(named("train=2,trian=1"),
              HasSubstr(" names \"trian\", which is no container in spec.containers"));
  for (const char* mixed : {"2,train=2", "train=2,", "=2", "train=", "train=-1", "train=65"})
    EXPECT_THAT(named(mixed), HasSubstr("must have the name of a container and a number from 0"));
  EXPECT_THAT(named("train=2,train=2"), HasSubstr("names container \"train\" twice"));
}

TEST(ReadRequest, RejectsLongNamesOnlyOfContainersThatRequestCards) {
  const std::string longest(kContainerNameMax, 'a');
  EXPECT_EQ(outcome(pod_of({container(longest, "100", "")})), longest + "=whole");
  EXPECT_EQ(outcome(pod_of({container(longest + "b", "", "")})), "");
  const std::string refused = outcome(pod_of({container(longest + "b", "100", "")}));
  EXPECT_THAT(refused, HasSubstr("has a name of 44 characters"));
  EXPECT_THAT(refused, HasSubstr("at most 43"));
}

TEST(ReadRequest, RefusesMoreContainersThanTheLimit) {
  std::vector<kube::Container> containers;
  for (std::size_t i = 0; i < kGpuContainersPerPodMax; ++i) {
    containers.push_back(container("c" + std::to_string(i), "1", "256"));
  }
  ASSERT_TRUE(read(pod_of(containers)));
  containers.push_back(container("without", "", ""));
  ASSERT_TRUE(read(pod_of(containers)));
  containers.push_back(container("more", "1", "256"));
  EXPECT_THAT(outcome(pod_of(containers)), HasSubstr("more than 64 containers"));
}

TEST(ReadRequest, LongValuesAreCutInSentences) {
  const std::string huge(1 << 20, 'x');
  for (const auto& pod : {pod_of({container(huge, "30", "")}), pod_of({container("a", huge, "")}),
                          pod_of({container("a", "30", "1024")}, huge)}) {
    const auto request = read(pod);
    ASSERT_FALSE(request);
    EXPECT_LT(request.error().message.size(), 600u);
  }
}

TEST(ReadRequest, ReadsSelectorAndPolicy) {
  kube::Pod pod = pod_of({container("app", "30", "1024")});
  pod.metadata.annotations = {{kDomain + "/gpu-model", "A100, H100"},
                              {kDomain + "/gpu-model-exclude", "T4"},
                              {kDomain + "/gpu-uuid", "GPU-1,GPU-2"},
                              {kDomain + "/gpu-uuid-exclude", "GPU-3"},
                              {kDomain + "/mgpu-policy", "spread/binpack"}};
  const auto request = read(pod);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->selector,
            (CardSelector{{"A100", "H100"}, {"T4"}, {"GPU-1", "GPU-2"}, {"GPU-3"}}));
  EXPECT_EQ(request->policy, "spread/binpack");
}

TEST(ReadRequest, RefusesSelectorsThatDoNotParse) {
  for (const char* name : {"gpu-model", "gpu-model-exclude", "gpu-uuid", "gpu-uuid-exclude"}) {
    kube::Pod pod = pod_of({container("app", "30", "1024")});
    pod.metadata.annotations[kDomain + "/" + name] = "A100,,H100";
    EXPECT_THAT(outcome(pod), HasSubstr("annotation " + kDomain + "/" + name + ": ")) << name;
    // Without cards, the selector is not read.
    pod.containers = {container("app", "", "")};
    EXPECT_EQ(outcome(pod), "");
  }
}

TEST(ReadRequest, ReadsWhatThePodAsksOfLinks) {
  kube::Pod pod = pod_of({container("app", "200", "")});
  EXPECT_EQ(read(pod)->links, LinkPreference::kPreferred);
  for (const LinkPreference preference :
       {LinkPreference::kPreferred, LinkPreference::kRequired, LinkPreference::kIgnored}) {
    pod.metadata.annotations[kDomain + "/gpu-links"] = to_string(preference);
    EXPECT_EQ(read(pod)->links, preference);
  }
  for (const char* text : {"", "Required", "required ", "nvlink"}) {
    pod.metadata.annotations[kDomain + "/gpu-links"] = text;
    EXPECT_EQ(outcome(pod), "annotation " + kDomain +
                                "/gpu-links must be required, preferred or ignored, found \"" +
                                text + "\"");
  }
  // It is not read without cards, nor of a bound pod, which keeps its cards.
  EXPECT_TRUE(read_containers(pod, contract(), MiB(256)));
  pod.containers = {container("app", "", "")};
  EXPECT_EQ(outcome(pod), "");
}

TEST(ReadRequest, OtherDomainsAreOtherResources) {
  const Contract other = Contract::for_domain("example.com").value();
  kube::Pod pod = pod_of({container("app", "30", "1024")});
  EXPECT_TRUE(read_request(pod, other, MiB(256)).value().empty());
  pod.containers[0].limits["example.com/mgpu-core"] = "100";
  EXPECT_EQ(read_request(pod, other, MiB(256)).value().containers.at(0).whole, true);
}

TEST(ReadPlacement, ReadsTheCardsOfEveryContainer) {
  kube::Pod pod = pod_of({container("a", "30", "1024"), container("b", "200", "")});
  pod.metadata.annotations[kDomain + "/gpu-index-container-a"] = "3";
  pod.metadata.annotations[kDomain + "/gpu-index-container-b"] = "0,2";
  const auto placement = read_placement(pod, read(pod).value(), contract());
  ASSERT_TRUE(placement);
  EXPECT_EQ(*placement, placement_of("3 | 0,2"));
}

TEST(ReadPlacement, NamesTheAnnotationThatIsWrong) {
  const std::string key = "annotation " + kDomain + "/gpu-index-container-a";
  const std::pair<const char*, std::string> cases[] = {
      {nullptr, key + " is missing"},
      {"", key + ": card index list \"\""},
      {"1,0", key + ": card index list \"1,0\" must be ascending"},
      {"1,x", key + ": card index list \"1,x\""},
      {"1", key + " \"1\" must have 2 cards, as the container requests"},
      {"1,2,3", key + " \"1,2,3\" must have 2 cards, as the container requests"},
  };
  for (const auto& [value, sentence] : cases) {
    kube::Pod pod = pod_of({container("a", "200", "")});
    if (value != nullptr) pod.metadata.annotations[kDomain + "/gpu-index-container-a"] = value;
    const auto placement = read_placement(pod, read(pod).value(), contract());
    ASSERT_FALSE(placement) << sentence;
    EXPECT_THAT(placement.error().message, HasSubstr(sentence));
  }
}

TEST(ReadPlacement, QuotesANameThatIsNotPlainText) {
  const kube::Pod pod = pod_of({container("a\x01\xff", "100", "")});
  EXPECT_EQ(read_placement(pod, read(pod).value(), contract()).error().message,
            "annotation \"" + kDomain + R"(/gpu-index-container-a\u0001)" + "\uFFFD\" is missing");
}

// --- bound pods ----------------------------------------------------------------------------------

TEST(ReadBoundContainers, TheIndicesAreTheNumberOfCards) {
  kube::Pod pod = pod_of({container("a", "100", "1000"), container("b", "", "")}, "no number");
  pod.metadata.annotations[contract().index_key("a")] = "1,3";
  const auto request = read_bound_containers(pod, contract());
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->containers.size(), 1u);
  EXPECT_EQ(text_of_container(request->containers[0]), "a=50/500x2");
  EXPECT_EQ(text_of(*read_placement(pod, *request, contract())), "1,3");
}

TEST(ReadBoundContainers, RefusesIndicesThatTheAmountsCannotBeSplitOver) {
  for (const char* indices : {"0,1,2", "x", ""}) {
    kube::Pod pod = pod_of({container("a", "100", "1000")});
    pod.metadata.annotations[contract().index_key("a")] = indices;
    EXPECT_TRUE(read_bound_containers(pod, contract()).has_error()) << indices;
  }
  EXPECT_TRUE(
      read_bound_containers(pod_of({container("a", "100", "1000")}), contract()).has_error());
}

TEST(MostOfOneCard, IsTheLargestShareForAnyNumberOfCards) {
  const std::string all = "100/" + std::to_string(kCardMemoryMiBMax);
  const struct {
    const char* core;
    const char* memory;
    std::string most;
  } cases[] = {
      {"30", "1024", "30/1024"},
      {"100", "1024", "100/1024"},
      {"100", "", all},
      {"800", "", all},
      {"200", "1024", "100/512"},
      {"150", "1023", "100/511"},
      {"30", "", "30/0"},
      {"", "1024", "0/1024"},
      {"", "", "0/0"},
      {"1", "1E", "1/" + std::to_string(kCardMemoryMiBMax)},
  };
  for (const auto& one : cases) {
    const auto most = most_of_one_card(pod_of({container("a", one.core, one.memory)}), contract());
    ASSERT_TRUE(most) << one.core << " " << one.memory;
    EXPECT_EQ(text_of(*most), one.most) << one.core << " " << one.memory;
  }
}

TEST(MostOfOneCard, IsThatOfTheContainersThatRunTogether) {
  kube::Pod pod = pod_of({container("a", "30", "300"), container("b", "10", "100")});
  pod.init_containers = {container("side", "5", "50"), container("init", "50", "200")};
  pod.init_containers[0].restart_always = true;
  EXPECT_EQ(text_of(*most_of_one_card(pod, contract())), "55/450");
}

TEST(MostOfOneCard, IsUnknownWhereAnAmountCannotBeRead) {
  for (const char* core : {"9E", "-1", "0.5", "many"}) {
    EXPECT_TRUE(most_of_one_card(pod_of({container("a", core, "")}), contract()).has_error());
  }
}

// Each number of cards that some annotation may give a container, on cards of any size.
TEST(MostOfOneCard, NoAnnotationLetsAContainerHoldMore) {
  std::mt19937 random(7);
  const auto below = [&](int limit) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(limit));
  };
  int valid = 0;
  for (int round = 0; round < 2'000; ++round) {
    const std::int64_t core = below(3) == 0 ? below(120) : 10 * below(90);
    const std::int64_t memory = below(4) == 0 ? 0 : 12 * below(400);
    const auto text = [](std::int64_t amount) { return amount == 0 ? "" : std::to_string(amount); };
    const auto make = [&](const std::string& counts) {
      return pod_of({container("a", text(core), text(memory))}, counts);
    };
    const Share most = *most_of_one_card(make(""), contract());
    for (int cards = 0; cards <= static_cast<int>(kCardsPerNodeMax); ++cards) {
      const auto request =
          read_containers(make(cards == 0 ? "" : std::to_string(cards)), contract(), MiB());
      if (!request || request->empty()) continue;
      ++valid;
      for (const std::int64_t size : {0, 100, 5'000}) {
        const Share capacity{kWholeCard, MiB(size)};
        const Share share = request->containers[0].on(capacity);
        ASSERT_TRUE(share.fits_in(most)) << core << "/" << memory << " on " << cards << " cards";
      }
    }
  }
  EXPECT_GT(valid, 2'000);
}

}  // namespace
}  // namespace mgpu
