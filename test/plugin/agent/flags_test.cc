#include "plugin/agent/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "test/plugin/cards/fake_driver.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::HasSubstr;
using Arguments = std::vector<std::string>;

struct Parsed {
  Flags flags;
  ParsedOptions options;
};

Parsed parse(const Arguments& arguments, const std::string& environment = "") {
  Parsed parsed;
  Options options("mgpu-device-plugin", "Tests.", environment);
  add_flags(options, parsed.flags);
  std::vector<const char*> all = {"mgpu-device-plugin"};
  for (const std::string& argument : arguments) all.push_back(argument.c_str());
  parsed.options = options.parse(static_cast<int>(all.size()), all.data());
  return parsed;
}

AgentOptions options(const Arguments& arguments) {
  const Parsed parsed = parse(arguments);
  EXPECT_TRUE(parsed.options.run) << parsed.options.print;
  auto options = options_of(parsed.flags);
  EXPECT_TRUE(options) << options.error().message;
  return options ? *std::move(options) : AgentOptions();
}

std::string error_output(const Arguments& arguments) {
  const Parsed parsed = parse(arguments);
  EXPECT_EQ(parsed.options.exit_code, 2);
  EXPECT_FALSE(parsed.options.run);
  return parsed.options.print;
}

TEST(PluginFlags, HaveTheDocumentedDefaults) {
  const AgentOptions standard = options({"--node-name", "n1"});
  EXPECT_EQ(standard.node, NodeName("n1"));
  EXPECT_EQ(standard.contract.core_resource, "vke.volcengine.com/mgpu-core");
  EXPECT_EQ(standard.service.http.address, "127.0.0.1");
  EXPECT_EQ(standard.service.http.port, 9801);
  EXPECT_FALSE(standard.service.insecure);
  EXPECT_EQ(standard.plugin_folder, "/var/lib/kubelet/device-plugins");
  EXPECT_EQ(standard.pod_resources_socket, "/var/lib/kubelet/pod-resources/kubelet.sock");
  EXPECT_EQ(standard.runtime_socket, "/run/containerd/containerd.sock");
  EXPECT_EQ(standard.state_folder, "/var/lib/mgpu");
  EXPECT_EQ(standard.run_folder, "/run/mgpu");
  EXPECT_EQ(standard.cdi_folder, "/var/run/cdi");
  EXPECT_EQ(standard.proc_folder, "/proc");
  EXPECT_EQ(standard.settle, std::chrono::milliseconds(20));
  EXPECT_EQ(standard.memory_resource, MemoryResource::kNodeStatus);
  EXPECT_EQ(standard.enforcement, Enforcement::kNone);
  EXPECT_EQ(standard.isolation.mode, IsolationMode::kNone);
}

TEST(PluginFlags, SetTheOptions) {
  const AgentOptions given =
      options({"--node-name=n2.example.com", "--metrics-bind-address=0.0.0.0:0",
               "--metrics-tls-cert-file=x", "--metrics-tls-key-file=y", "--insecure-listen",
               "--resource-domain=example.com", "--device-plugin-dir=/a",
               "--pod-resources-socket=/b", "--runtime-socket=/c", "--state-dir=/d", "--run-dir=/e",
               "--cdi-dir=/f", "--settle-ms=5000", "--isolation=mps", "--mps-control=/opt/mps",
               "--enforce=evict", "--memory-resource=device-plugin"});
  EXPECT_EQ(given.node, NodeName("n2.example.com"));
  EXPECT_EQ(given.service.http.address, "0.0.0.0");
  EXPECT_EQ(given.service.http.port, 0);
  EXPECT_EQ(given.service.http.tls.certificate_file, "x");
  EXPECT_EQ(given.service.http.tls.key_file, "y");
  EXPECT_TRUE(given.service.insecure);
  EXPECT_EQ(given.contract.memory_resource, "example.com/mgpu-memory");
  EXPECT_EQ(given.plugin_folder, "/a");
  EXPECT_EQ(given.pod_resources_socket, "/b");
  EXPECT_EQ(given.runtime_socket, "/c");
  EXPECT_EQ(given.state_folder, "/d");
  EXPECT_EQ(given.run_folder, "/e");
  EXPECT_EQ(given.cdi_folder, "/f");
  EXPECT_EQ(given.settle, std::chrono::seconds(5));
  EXPECT_EQ(given.isolation.mode, IsolationMode::kMps);
  EXPECT_EQ(given.isolation.mps.control, "/opt/mps");
  EXPECT_EQ(given.enforcement, Enforcement::kEvict);
  EXPECT_EQ(given.memory_resource, MemoryResource::kDevicePlugin);
}

TEST(PluginFlags, AreReadFromTheEnvironment) {
  ASSERT_EQ(setenv("PLUGIN_TEST_NODE_NAME", "n7", 1), 0);
  ASSERT_EQ(setenv("PLUGIN_TEST_SETTLE_MS", "7", 1), 0);
  const Parsed parsed = parse({"--settle-ms=9"}, "PLUGIN_TEST");
  unsetenv("PLUGIN_TEST_NODE_NAME");
  unsetenv("PLUGIN_TEST_SETTLE_MS");
  ASSERT_TRUE(parsed.options.run) << parsed.options.print;
  EXPECT_EQ(parsed.flags.node_name, "n7");
  EXPECT_EQ(parsed.flags.settle_ms, 9) << "the command line wins";
}

TEST(PluginFlags, RejectAnInvalidValueInTheEnvironment) {
  ASSERT_EQ(setenv("PLUGIN_TEST_ISOLATION", "other", 1), 0);
  const Parsed parsed = parse({}, "PLUGIN_TEST");
  unsetenv("PLUGIN_TEST_ISOLATION");
  EXPECT_EQ(parsed.options.exit_code, 2);
  EXPECT_THAT(parsed.options.print, HasSubstr("other"));
}

struct Wrong {
  std::string flag;
  std::string value;
  std::string expectation;
};

TEST(PluginFlags, RejectInvalidValuesWithFlagValueAndExpectation) {
  const std::string path = "is not an absolute path";
  const std::string name = "is not the name of a node: 1 to 253 lower-case letters";
  const Wrong cases[] = {
      {"--metrics-bind-address", "0.0.0.0:70000", "is not an IP address and a port"},
      {"--metrics-bind-address", "9801", "is not an IP address and a port"},
      {"--metrics-bind-address", "localhost:9801", "is not an IP address and a port"},
      {"--local-metrics-bind-address", "10.0.0.1:9801", "is not a loopback address"},
      {"--local-metrics-bind-address", "127.0.0.1", "is not an IP address and a port"},
      {"--allowed-hosts", "a,,b", "one of them is empty"},
      {"--settle-ms", "5001", "5000"},
      {"--settle-ms", "soon", "5000"},
      {"--resource-domain", "not a domain", "must be a DNS subdomain"},
      {"--resource-domain", "kubernetes.io", "is reserved by Kubernetes"},
      {"--node-name", "N1", name},
      {"--node-name", "a/b", name},
      {"--node-name", std::string(254, 'n'), name},
      {"--cards-file", "cards.yaml", path},
      {"--device-plugin-dir", "plugins", path},
      {"--pod-resources-socket", "socket", path},
      {"--runtime-socket", "unix:///run/containerd.sock", path},
      {"--state-dir", "./state", path},
      {"--run-dir", "run", path},
      {"--cdi-dir", "cdi", path},
      {"--node-root", "host", path},
      {"--driver-root", "run/nvidia/driver", path},
      {"--hook-path", "mgpu-set-limits", path},
      {"--xid-ignore", "many", "is not an XID, a whole number"},
      {"--xid-ignore", "-1", "is not an XID"},
      {"--xid-ignore", "99999999999999999999", "is not an XID"},
      {"--xid-ignore", "13,,31", "one of them is empty"},
      {"--isolation", "strict", "driver"},
      {"--compute", "half", "burst"},
      {"--enforce", "kill", "evict"},
      {"--memory-resource", "kubelet", "device-plugin"},
      {"--log-level", "loud", "warn"},
      {"--log-format", "xml", "json"},
  };
  for (const auto& [flag, value, expectation] : cases) {
    const std::string sentence = error_output({flag, value});
    EXPECT_THAT(sentence, HasSubstr(flag));
    EXPECT_THAT(sentence, HasSubstr(value.substr(0, 60))) << flag;
    EXPECT_THAT(sentence, HasSubstr(expectation));
    EXPECT_EQ(std::ranges::count(sentence, '\n'), 1) << sentence;
    EXPECT_LT(sentence.size(), 400U);
  }
}

TEST(PluginFlags, RejectAnEmptyPath) {
  for (const char* flag : {"--device-plugin-dir", "--pod-resources-socket", "--runtime-socket",
                           "--state-dir", "--run-dir", "--cdi-dir"}) {
    EXPECT_THAT(error_output({std::string(flag) + "="}), HasSubstr(flag));
  }
}

TEST(PluginFlags, TurnsNeedTheLibrary) {
  EXPECT_EQ(options({"--node-name=n"}).isolation.compute, ComputeMode::kNone);
  EXPECT_EQ(
      options({"--node-name=n", "--isolation=intercept", "--compute=burst"}).isolation.compute,
      ComputeMode::kBurst);
  EXPECT_EQ(options({"--node-name=n", "--isolation=auto", "--compute=fixed"}).isolation.compute,
            ComputeMode::kFixed);
  EXPECT_THAT(error_output({"--node-name=n", "--isolation=mps", "--compute=fixed"}),
              HasSubstr("--compute: fixed needs the library of --isolation=intercept or auto, and "
                        "--isolation is mps"));
  for (const char* const isolation : {"mps", "intercept", "driver", "auto"}) {
    const AgentOptions read =
        options({"--node-name=n", "--compute=mps", std::string("--isolation=") + isolation});
    EXPECT_EQ(read.isolation.compute, ComputeMode::kMps);
  }
  EXPECT_THAT(
      error_output({"--node-name=n", "--compute=mps"}),
      HasSubstr("--compute: mps needs a limit of memory: --isolation=mps, intercept, driver "
                "or auto, and --isolation is none"));
}

TEST(PluginFlags, ExclusiveCardsNeedNvml) {
  EXPECT_FALSE(options({"--node-name=n"}).isolation.mps_exclusive);
  EXPECT_TRUE(
      options({"--node-name=n", "--isolation=mps", "--mps-exclusive"}).isolation.mps_exclusive);
  EXPECT_THAT(error_output({"--node-name=n", "--mps-exclusive", "--cards-file=/cards.yaml"}),
              HasSubstr("--mps-exclusive: true sets the compute mode of cards by NVML"));
}

TEST(PluginFlags, PartsOfSeveralCardsMayHaveNoLimits) {
  EXPECT_FALSE(options({"--node-name=n"}).isolation.mps_parts_without_limits);
  EXPECT_FALSE(options({"--node-name=n"}).beside_nvidia);
  EXPECT_TRUE(options({"--node-name=n", "--beside-nvidia"}).beside_nvidia);
  EXPECT_TRUE(options({"--node-name=n", "--isolation=mps", "--mps-parts-without-limits"})
                  .isolation.mps_parts_without_limits);
  EXPECT_THAT(error_output({"--node-name=n", "--mps-exclusive", "--mps-parts-without-limits"}),
              HasSubstr("--mps-parts-without-limits: true needs programs that do not use MPS, "
                        "which --mps-exclusive keeps off the cards; use one of the two"));
}

TEST(PluginFlags, TheLeastMemoryIsThatOfTheIsolationUnlessItIsSet) {
  EXPECT_EQ(options({"--node-name=n"}).minimum_memory, std::nullopt);
  EXPECT_EQ(options({"--node-name=n", "--min-memory-mib=0"}).minimum_memory, MiB(0));
  EXPECT_EQ(options({"--node-name=n", "--min-memory-mib=700"}).minimum_memory, MiB(700));
}

TEST(PluginFlags, ClientsOfMpsAreEndedTwoSecondsBeforeTheirContainers) {
  EXPECT_EQ(options({"--node-name=n"}).mps_end_clients, std::chrono::seconds(10));
  EXPECT_EQ(options({"--node-name=n", "--mps-end-clients=0s"}).mps_end_clients, Duration(0));
}

TEST(PluginFlags, SayThatCardsAreInjectedInOneWay) {
  EXPECT_THAT(error_output({"--node-name=n", "--injection=cdi"}),
              HasSubstr("--injection was removed: containers get their cards by CDI alone"));
}

TEST(PluginFlags, SayWhichAlertShowsUnusedShares) {
  EXPECT_THAT(error_output({"--node-name=n", "--unused-after=2h"}),
              HasSubstr("--unused-after was removed: the alert MGPUUnusedShares"));
}

TEST(PluginFlags, SetTheDriversLimits) {
  const auto given =
      options({"--node-name=n", "--isolation=driver", "--hook-path=/opt/hook",
               "--nvml-library=/opt/nvml.so", "--node-root=/host/", "--driver-root=/driver/"});
  EXPECT_EQ(given.isolation.mode, IsolationMode::kDriver);
  EXPECT_EQ(given.isolation.hook_path, "/opt/hook");
  EXPECT_THAT(given.isolation.nvml.libraries, testing::ElementsAre("/opt/nvml.so"));
  EXPECT_EQ(given.isolation.nvml.node_root, "/host");
  EXPECT_EQ(given.isolation.nvml.driver_root, "/driver");
  EXPECT_EQ(options({"--node-name=n", "--isolation=auto"}).isolation.mode, IsolationMode::kAuto);
}

class ProfilesFlag : public testing::Test {
 public:
  // The flags with a file of this text.
  Arguments with_file(const std::string& text, Arguments more = {}) const {
    std::ofstream(folder_.path("profiles.yaml")) << text;
    more.insert(more.end(), {"--node-name=n", "--profiles=" + folder_.path("profiles.yaml")});
    return more;
  }

  test::ScratchFolder folder_;
};

TEST_F(ProfilesFlag, ReadsTheFile) {
  const AgentOptions read = options(with_file("profiles: [{name: a, computeFactor: 2}]"));
  EXPECT_THAT(read.profiles, testing::ElementsAre(Profile{.name = "a", .core = Percent(200)}));
  EXPECT_TRUE(options({"--node-name=n"}).profiles.empty());
}

TEST_F(ProfilesFlag, LeavesTheReserveToTheProfileOrTheIsolation) {
  const std::string text = "profiles: [{name: a}]";
  EXPECT_EQ(options(with_file(text)).reserve, std::nullopt);
  EXPECT_EQ(options(with_file(text, {"--reserve-mib=300"})).reserve, MiB(300));
  EXPECT_EQ(options(with_file(text, {"--cards-file=/cards.yaml"})).reserve, MiB(0));
}

TEST_F(ProfilesFlag, RejectsABadFileInOneSentence) {
  EXPECT_THAT(error_output(with_file("profiles: [{name: a, computeFactor: 0.5}]")),
              HasSubstr("--profiles: profiles[0].computeFactor must be a number from 1 to 10, "
                        "found \"0.5\""));
  EXPECT_THAT(error_output({"--node-name=n", "--profiles=profiles.yaml"}),
              HasSubstr("--profiles: \"profiles.yaml\" is not an absolute path"));
  EXPECT_THAT(error_output({"--node-name=n", "--profiles=/no/such/file"}),
              HasSubstr("--profiles: "));
}

TEST(PluginFlags, RejectAnUnknownFlag) {
  EXPECT_THAT(error_output({"--no-such-flag"}), HasSubstr("--no-such-flag"));
}

TEST(PluginFlags, AcceptAnEmptyXidList) {
  EXPECT_TRUE(parse({"--node-name=n", "--xid-ignore="}).options.run);
}

TEST(PluginFlags, CardsFileReplacesNvml) {
  Flags flags;
  flags.cards_file = "/etc/mgpu/cards.yaml";
  const auto source = card_source_of(flags);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_EQ((*source)->description(), "/etc/mgpu/cards.yaml");
}

TEST(PluginFlags, NvmlLibraryIsLoadedFromItsPath) {
  Flags flags;
  flags.nvml_library = "/no/such/libnvidia-ml.so.1";
  const auto source = card_source_of(flags);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT((*source)->read().error().message, HasSubstr("/no/such/libnvidia-ml.so.1"));
}

TEST(PluginFlags, NvmlIsSearchedBelowTheNodeRoot) {
  Flags flags;
  flags.node_root = "/no/such/node/";
  const auto source = card_source_of(flags);
  ASSERT_TRUE(source) << source.error().message;
  EXPECT_THAT((*source)->read().error().message, HasSubstr("/no/such/node/usr/lib/"));
}

// The plugin in a container sees the node's files in another folder.
TEST(PluginFlags, NvidiaUvmIsLoadedInTheNodeRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot and mknod need root";
  const FakeDriver node;
  node.set_scenario("card GPU-a\n");
  node.add_cuda();
  std::filesystem::remove(node.root() + "/dev/nvidia-uvm");
  node.add_file("/proc/devices");
  std::filesystem::create_directory(node.root() + "/sbin");
  std::filesystem::copy_file(beside_the_test("fake_modprobe"), node.root() + "/sbin/modprobe");
  Flags flags;
  flags.node_root = node.root();
  flags.nvml_library = beside_the_test("fake_nvml.so");
  const auto source = card_source_of(flags);
  ASSERT_TRUE(source) << source.error().message;
  const auto found = (*source)->read();
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->cards.size(), 1U);
  EXPECT_EQ(found->cards[0].health, kHealthy);
}

TEST(PluginFlags, HaveHelp) {
  const Parsed parsed = parse({"--help"});
  EXPECT_EQ(parsed.options.exit_code, 0);
  EXPECT_FALSE(parsed.options.run);
  for (const char* flag : {"--node-name",
                           "--kubeconfig",
                           "--context",
                           "--insecure-skip-tls-verify",
                           "--metrics-bind-address",
                           "--local-metrics-bind-address",
                           "--metrics-tls-cert-file",
                           "--metrics-tls-key-file",
                           "--insecure-listen",
                           "--allowed-hosts",
                           "--resource-domain",
                           "--cards-file",
                           "--nvml-library",
                           "--node-root",
                           "--driver-root",
                           "--check-driver",
                           "--xid-ignore",
                           "--device-plugin-dir",
                           "--pod-resources-socket",
                           "--runtime-socket",
                           "--state-dir",
                           "--run-dir",
                           "--cdi-dir",
                           "--settle-ms",
                           "--isolation",
                           "--compute",
                           "--mps-control",
                           "--hook-path",
                           "--enforce",
                           "--memory-resource",
                           "--log-level",
                           "--log-format"}) {
    EXPECT_THAT(parsed.options.print, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace mgpu::plugin
