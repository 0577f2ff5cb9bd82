#include "plugin/monitor/drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/monitor/drift_world.h"

namespace mgpu::plugin {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

using Find = std::vector<Drift> (*)(const DriftFacts&, const Contract&);

void check(Find find, const std::vector<DriftCase>& cases) {
  for (const DriftCase& one : cases) {
    DriftWorld world;
    one.change(world);
    EXPECT_EQ(containers_of(find(world.facts, world.contract)), one.found) << one.what;
  }
}

// --- ChangedAnnotations --------------------------------------------------------------------------

TEST(ChangedAnnotations, AreThoseThatNameOtherCardsThanTheRecord) {
  check(changed_annotations,
        {{"as it was written", [](DriftWorld&) {}},
         {"another card", [](DriftWorld& w) { w.annotation() = "1"; }, "a/app"},
         {"one more card", [](DriftWorld& w) { w.annotation() = "0,1"; }, "a/app"},
         {"no card", [](DriftWorld& w) { w.annotation() = ""; }, "a/app"},
         {"no number", [](DriftWorld& w) { w.annotation() = "0,x"; }, "a/app"},
         {"a number that is too large", [](DriftWorld& w) { w.annotation() = "99999999999"; },
          "a/app"},
         {"it is very long", [](DriftWorld& w) { w.annotation() = std::string(300'000, '0'); },
          "a/app"},
         {"it was removed",
          [](DriftWorld& w) { w.pod().metadata.annotations.erase(w.contract.index_key("app")); },
          "a/app"},
         {"with blanks", [](DriftWorld& w) { w.annotation() = " 0 "; }, "a/app"},
         {"several cards",
          [](DriftWorld& w) {
            w.run("b", "two", {0, 2});
          }},
         {"several cards in another order, which the extender refuses",
          [](DriftWorld& w) {
            w.run("b", "two", {0, 2});
            w.pod("b").metadata.annotations[w.contract.index_key("two")] = "2,0";
          },
          "b/two"},
         {"the pod has finished",
          [](DriftWorld& w) {
            w.annotation() = "1";
            w.pod().phase = "Succeeded";
          }},
         {"the pod is being deleted",
          [](DriftWorld& w) {
            w.annotation() = "1";
            w.pod().metadata.being_deleted = true;
          }},
         {"another pod has the name now",
          [](DriftWorld& w) {
            w.annotation() = "1";
            w.pod().metadata.uid = "uid-new";
          }},
         {"the pod is not known yet", [](DriftWorld& w) { w.facts.pods.clear(); }},
         {"an annotation of a container that has not been started", [](DriftWorld& w) {
            w.pod().metadata.annotations[w.contract.index_key("next")] = "2";
          }}});
}

TEST(ChangedAnnotations, SayWhatToWrite) {
  DriftWorld world;
  world.annotation() = "1";
  const auto found = changed_annotations(world.facts, world.contract);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].message,
            "container \"app\" of pod ml/a was started on card 0, and its annotation "
            "vke.volcengine.com/gpu-index-container-app is \"1\"; set it to \"0\" again, or delete "
            "the pod: its container does not start again, and an extender that starts counts other "
            "cards");
}

// --- ProcessWithoutShare -------------------------------------------------------------------------

TEST(ProcessWithoutShare, IsOneOfAContainerThatHoldsNoShareOfTheCard) {
  check(processes_without_share,
        {{"the container of the share",
          [](DriftWorld& w) { w.use({process(0, 11, 5, "a", "app")}); }},
         {"another card", [](DriftWorld& w) { w.use({process(1, 11, 5, "a", "app")}); }, "a/app"},
         {"another container of the pod",
          [](DriftWorld& w) {
            w.run("a", "helper", {1});
            w.use({process(0, 11, 5, "a", "helper")});
          },
          "a/helper"},
         {"a container that is not in the status of the pod yet",
          [](DriftWorld& w) {
            w.run("a", "helper", {1});
            w.use({process(0, 11, 5, "a", "new"), process(1, 12, 5, "a", "new")});
          }},
         {"such a container on a card of which the pod has no share",
          [](DriftWorld& w) { w.use({process(2, 11, 5, "a", "new")}); }, "a/"},
         {"a pod without cards",
          [](DriftWorld& w) {
            w.facts.pods.push_back(DriftWorld::new_pod("ml", "b"));
            w.use({process(0, 11, 5, "b", "app")});
          },
          "b/"},
         {"a pod that the API server does not know",
          [](DriftWorld& w) { w.use({process(0, 11, 5, "b", "app")}); }, "/"},
         {"a deleted pod whose record counts until its processes end",
          [](DriftWorld& w) {
            w.facts.pods.clear();
            w.use({process(0, 11, 5, "a", "app")});
          }},
         {"a pod with a card by its annotation, whose record is lost",
          [](DriftWorld& w) {
            w.facts.records.clear();
            w.use({process(0, 11, 5, "a", "app")});
          }},
         {"a pod with several cards by its annotation, whose record is lost",
          [](DriftWorld& w) {
            w.facts.records.clear();
            w.annotation() = "0,2";
            w.use({process(2, 11, 5, "a", "app"), process(1, 12, 5, "a", "app")});
          },
          "a/app"},
         {"an annotation that the extender refuses, of a pod whose record is lost",
          [](DriftWorld& w) {
            w.facts.records.clear();
            w.annotation() = "2,0";
            w.use({process(0, 11, 5, "a", "app")});
          },
          "a/app"},
         {"an annotation of a container that the pod does not have gives no card",
          [](DriftWorld& w) {
            w.pod().metadata.annotations[w.contract.index_key("x")] = "0,1,2";
            w.use({process(2, 11, 5, "a", "ephemeral")});
          },
          "a/"},
         {"a container without a request, to which kubelet gives nothing",
          [](DriftWorld& w) {
            w.facts.records.clear();
            w.pod().containers[0].limits.clear();
            w.use({process(0, 11, 5, "a", "app")});
          },
          "a/app"},
         {"an init container whose record is lost",
          [](DriftWorld& w) {
            w.facts.records.clear();
            std::swap(w.pod().containers, w.pod().init_containers);
            w.use({process(0, 11, 5, "a", "app")});
          }},
         {"the annotation was edited, which gives no card",
          [](DriftWorld& w) {
            w.annotation() = "0,1";
            w.use({process(1, 11, 5, "a", "app")});
          },
          "a/app"}});
}

TEST(ProcessWithoutShare, IsOneOfNoPod) {
  const auto other = [](const std::string& program, const std::string& pod = "") {
    ProcessSample sample = process(0, 4'711, 500, pod, "c");
    sample.program = program;
    return sample;
  };
  const auto with_pod = [](DriftWorld& w, const std::string& name_space, const std::string& name) {
    w.facts.pods.push_back(DriftWorld::new_pod(name_space, name));
  };
  check(processes_without_share,
        {{"a program on the node", [&](DriftWorld& w) { w.use({other("python3")}); }, "/"},
         {"the plugin", [](DriftWorld& w) { w.use({process(0, 1, 500)}); }},
         {"a process in the pod of the plugin",
          [&](DriftWorld& w) { w.use({other("nvidia-smi", "plugin")}); }},
         {"a server of MPS on the node", [&](DriftWorld& w) { w.use({other("nvidia-cuda-mps")}); }},
         {"a server of MPS in the pod of mgpu-mps",
          [&](DriftWorld& w) {
            with_pod(w, "mgpu-system", "mps");
            w.use({other("nvidia-cuda-mps", "mps")});
          }},
         {"a program of a tenant with that name",
          [&](DriftWorld& w) {
            with_pod(w, "ml", "fake");
            w.use({other("nvidia-cuda-mps", "fake")});
          },
          "fake/"},
         {"the plugin runs in no pod, so that no pod is one of mgpu",
          [&](DriftWorld& w) {
            with_pod(w, "", "fake");
            w.facts.own = {.pid = 1, .pod = {}, .name_space = {}};
            w.use({other("nvidia-cuda-mps", "fake")});
          },
          "fake/"},
         {"a card that a profile reserves",
          [&](DriftWorld& w) {
            w.facts.cards[0].health = std::string(kReservedBy) + "a100";
            w.use({other("python3")});
          }},
         {"a card with MIG",
          [&](DriftWorld& w) {
            w.facts.cards[0].health = "MIG is enabled";
            w.use({other("python3")});
          }},
         {"a card that is not known", [&](DriftWorld& w) {
            w.facts.cards.clear();
            w.use({other("python3")});
          }}});
}

TEST(ProcessWithoutShare, IsReportedOnceForAContainerAndACard) {
  DriftWorld world;
  world.use({process(1, 11, 5, "a", "app"), process(1, 12, 5, "a", "app"),
             process(2, 11, 5, "a", "app"), process(1, 13, 5), process(1, 14, 5)});
  const auto found = processes_without_share(world.facts, world.contract);
  EXPECT_EQ(containers_of(found), "/ a/app a/app");
  EXPECT_EQ(found[0].message,
            "2 processes, such as 13 (\"\"), on card 1 (GPU-1) belong to no pod, and use what pods "
            "hold of it; end them, or reserve the card with a profile");
  EXPECT_EQ(found[0].card, card(1));
  EXPECT_EQ(found[1].card, card(1));
  EXPECT_EQ(found[2].index, CardIndex(2));
}

TEST(ProcessWithoutShare, SaysHowToGetAShare) {
  DriftWorld world;
  world.use({process(1, 11, 5, "a", "app")});
  EXPECT_EQ(processes_without_share(world.facts, world.contract).at(0).message,
            "process 11 (\"\") of container \"app\" of pod ml/a uses card 1 (GPU-1) without a "
            "share of it; delete the pod, and create it with a request and without other access to "
            "the cards: privileged, a volume of /dev, or NVIDIA_VISIBLE_DEVICES");
}

// --- text from outside ---------------------------------------------------------------------------

TEST(Drift, NamesFromOutsideAreHarmlessInMessages) {
  const std::string hostile = "x\n\x1b[31m\xff" + std::string(10'000, 'y');
  DriftWorld world;
  world.annotation() = hostile;
  ProcessSample stranger = process(0, 11, 5);
  stranger.program = hostile;
  ProcessSample unknown = process(1, 12, 5, hostile, hostile);
  world.use({stranger, unknown, process(1, 13, 5, "a", "app")});
  world.pod().metadata.name = hostile;
  std::vector<std::string> messages;
  for (const Find find : {changed_annotations, processes_without_share}) {
    for (const Drift& one : find(world.facts, world.contract)) messages.push_back(one.message);
  }
  EXPECT_THAT(messages, SizeIs(4));
  EXPECT_THAT(messages, Each(Not(HasSubstr("\n"))));
  EXPECT_THAT(messages, Each(Not(HasSubstr("\x1b"))));
  EXPECT_THAT(messages, Each(Not(HasSubstr("\xff"))));
  for (const std::string& message : messages) EXPECT_LT(message.size(), 1'024U) << message;
}

}  // namespace
}  // namespace mgpu::plugin
