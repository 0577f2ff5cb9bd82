#include "plugin/monitor/cgroup.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace mgpu::plugin {
namespace {

const std::string kUid = "0f8b4d1c-1a2b-4c3d-8e9f-a0b1c2d3e4f5";
const std::string kUidLow = "0f8b4d1c_1a2b_4c3d_8e9f_a0b1c2d3e4f5";  // as in systemd's names
const std::string kStatic = "0123456789abcdef0123456789abcdef";
const std::string kId = std::string(32, 'a') + std::string(32, '7');
const std::string kOtherId = std::string(64, 'b');

std::optional<CgroupContainer> ours() {
  return CgroupContainer{PodUid(kUid), kId};
}

struct Form {
  const char* name;
  std::string text;
};

// One path of each form that kubelet and the runtimes create.
std::vector<Form> forms() {
  const std::string slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod";
  const std::string kind =
      "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
      "kubelet-kubepods-burstable-pod";
  return {
      {"v2, systemd, containerd",
       "0::" + slice + kUidLow + ".slice/cri-containerd-" + kId + ".scope\n"},
      {"v2, systemd, CRI-O, guaranteed",
       "0::/kubepods.slice/kubepods-pod" + kUidLow + ".slice/crio-" + kId + ".scope\n"},
      {"v2, CRI-O with crun's child",
       "0::/kubepods.slice/kubepods-pod" + kUidLow + ".slice/crio-" + kId + ".scope/container\n"},
      {"v2, systemd, docker", "0::" + slice + kUidLow + ".slice/docker-" + kId + ".scope\n"},
      {"v2, cgroupfs", "0::/kubepods/besteffort/pod" + kUid + "/" + kId + "\n"},
      {"v2, cgroupfs, guaranteed", "0::/kubepods/pod" + kUid + "/" + kId + "\n"},
      {"v2, systemd in the container",
       "0::/kubepods/pod" + kUid + "/" + kId + "/init.scope/user.slice\n"},
      {"kind, --cgroup-root", "0::" + kind + kUidLow + ".slice/cri-containerd-" + kId + ".scope\n"},
      {"kind, in docker",
       "0::/docker/" + kOtherId + "/kubelet/kubepods/burstable/pod" + kUid + "/" + kId + "\n"},
      {"cgroupfs driver with a systemd name",
       "0::/system.slice/containerd.service/kubepods-burstable-pod" + kUidLow +
           ".slice:cri-containerd:" + kId + "\n"},
      {"another cgroup namespace", "0::/../../burstable/pod" + kUid + "/" + kId + "\n"},
      {"another cgroup namespace, systemd",
       "0::/../../../kubepods-burstable.slice/kubepods-burstable-pod" + kUidLow +
           ".slice/cri-containerd-" + kId + ".scope\n"},
      {"removed cgroup", "0::/kubepods/pod" + kUid + "/" + kId + " (deleted)\n"},
      {"no newline at the end", "0::/kubepods/pod" + kUid + "/" + kId},
      {"v1", "12:pids:/kubepods/burstable/pod" + kUid + "/" + kId +
                 "\n5:devices:/kubepods/burstable/pod" + kUid + "/" + kId +
                 "\n1:name=systemd:/kubepods/burstable/pod" + kUid + "/" + kId + "\n"},
      {"v1, only one hierarchy has it", "12:cpu,cpuacct:/\n9:memory:/kubepods/pod" + kUid + "/" +
                                            kId + "\n1:name=systemd:/init.scope\n"},
      {"v1 and v2", "4:memory:/kubepods/pod" + kUid + "/" + kId +
                        "\n1:name=systemd:/\n0::/system.slice/containerd.service\n"},
      {"v1 and v2, v2 has it", "4:memory:/\n0::/kubepods/pod" + kUid + "/" + kId + "\n"},
  };
}

TEST(ContainerOf, RecognizesEveryFormOfPath) {
  for (const Form& form : forms()) {
    EXPECT_EQ(container_of(form.text), ours()) << form.name << "\n" << form.text;
  }
}

TEST(ContainerOf, RecognizesStaticPods) {
  const CgroupContainer expected{PodUid(kStatic), kId};
  EXPECT_EQ(container_of("0::/kubepods/burstable/pod" + kStatic + "/" + kId), expected);
  EXPECT_EQ(
      container_of("0::/kubepods.slice/kubepods-pod" + kStatic + ".slice/crio-" + kId + ".scope"),
      expected);
}

TEST(ContainerOf, PrefersTheHierarchiesThatKubeletSets) {
  const auto line = [](const std::string& controllers, const std::string& id) {
    return "1:" + controllers + ":/kubepods/pod" + kUid + "/" + id + "\n";
  };
  for (const char* const better : {"memory", "hugetlb,memory", "devices"}) {
    EXPECT_EQ(container_of(line("pids", kOtherId) + line(better, kId)), ours()) << better;
    EXPECT_EQ(container_of(line(better, kId) + line("name=systemd", kOtherId)), ours()) << better;
    EXPECT_EQ(container_of(line("", kOtherId) + line(better, kId)), ours()) << better;
  }
}

TEST(ContainerOf, IgnoresCgroupsCreatedInsideAContainer) {
  const std::string other_uid = "ffffffff-ffff-ffff-ffff-ffffffffffff";
  EXPECT_EQ(container_of("0::/kubepods/pod" + kUid + "/" + kId + "/kubepods/pod" + other_uid + "/" +
                         kOtherId),
            ours());
  EXPECT_EQ(container_of("0::/kubepods/pod" + kUid + "/" + kId + "/" + kOtherId), ours());
}

TEST(ContainerOf, ReturnsNothingOutsideOfContainers) {
  const std::string pod = "0::/kubepods/pod";
  const std::string texts[] = {
      "",
      "\n\n",
      "0::/\n",
      "0::/system.slice/sshd.service\n",
      "0::/docker/" + kId,
      "0::/user.slice/pod/" + kId,
      "0::/kubepods/" + kId,
      pod + kUid,                                           // the pod itself
      pod + kUid + "/" + kId.substr(1),                     // 63 digits
      pod + kUid + "/0" + kId,                              // 65
      pod + kUid + "/" + std::string(64, 'g'),              // no digits
      pod + kUid + "/" + std::string(64, 'A'),              // runtimes write small letters
      pod + kUid + "/crio-conmon-" + kId + ".scope",        // not the container
      pod + kUid.substr(1) + "/" + kId,                     // 35 characters
      pod + "0" + kUid + "/" + kId,                         // 37
      pod + "0f8b4d1c-1a2b_4c3d-8e9f-a0b1c2d3e4f5/" + kId,  // dashes of two kinds
      pod + "0f8b4d1c01a2b04c3d08e9f0a0b1c2d3e4f5/" + kId,  // none
      "0::/kubepods/xpod" + kUid + "/" + kId,
      "0:/kubepods/pod" + kUid + "/" + kId,  // a line of two fields
      "/kubepods/pod" + kUid + "/" + kId,
      pod + kUid + "\n" + kId,  // not one path
  };
  for (const std::string& text : texts) EXPECT_FALSE(container_of(text)) << text;
}

TEST(ContainerOf, RunsInLinearTime) {
  const std::string good = "0::/kubepods/pod" + kUid + "/" + kId + "\n";
  for (const char c : {'/', ':', '\n', 'a', '\0', '\xff', '-'}) {
    const std::string flood(1'000'000, c);
    EXPECT_FALSE(container_of(flood));
    EXPECT_EQ(container_of(flood + "\n" + good), ours());
  }
  std::string pods;
  for (int i = 0; i < 100'000; ++i) pods += "/pod" + kUid;
  EXPECT_FALSE(container_of("0::" + pods));
}

// The result has one of the two forms for any input.
TEST(ContainerOf, ReturnsWellFormedNamesOrNothing) {
  std::mt19937 random(1);
  const auto all = forms();
  const std::string pieces[] = {"/",   ":",  "-", "_",  ".slice", ".scope",
                                "pod", kUid, kId, "\n", "0"};
  int found = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = all[random() % all.size()].text;
    for (int change = 0; change < 2; ++change) {
      const std::size_t at = random() % (text.size() + 1);
      if (random() % 2 == 0) {
        text.insert(at, pieces[random() % std::size(pieces)]);
      } else {
        text.erase(at, random() % 3);
      }
    }
    const auto container = container_of(text);
    if (!container) continue;
    ++found;
    EXPECT_EQ(container->container_id.size(), 64u) << text;
    EXPECT_TRUE(container->uid.str().size() == 36 || container->uid.str().size() == 32) << text;
    EXPECT_EQ(container->uid.str().find_first_not_of("0123456789abcdef-"), std::string::npos);
    EXPECT_EQ(container->container_id.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
  EXPECT_GT(found, 1'000);
}

}  // namespace
}  // namespace mgpu::plugin
