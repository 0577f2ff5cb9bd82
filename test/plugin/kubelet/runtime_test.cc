#include "plugin/kubelet/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test/plugin/kubelet/fake_kubelet.h"
#include "test/plugin/kubelet/fake_services.h"

namespace mgpu::plugin {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  const char* version;
  const char* config;
  bool cdi;
  const char* why;
};

constexpr const char* kBoth = R"({"enableCDI":true,"cdiSpecDirs":["/etc/cdi","/var/run/cdi"]})";
constexpr const char* kOff = R"({"enableCDI":false,"cdiSpecDirs":["/etc/cdi","/var/run/cdi"]})";
constexpr const char* kElsewhere = R"({"enableCDI":true,"cdiSpecDirs":["/etc/cdi","/opt/cdi"]})";

const Case kCases[] = {
    {"containerd", "v2.2.9", kBoth, true, "containerd v2.2.9 resolves CDI names"},
    {"containerd", "v2.2.9", kOff, false,
     "containerd v2.2.9 has CDI disabled; set enable_cdi = true in its configuration"},
    {"containerd", "v2.2.9", kElsewhere, false,
     R"(reads no CDI specs from "/var/run/cdi"; add it to cdi_spec_dirs, which is "/etc/cdi", )"},
    {"containerd", "v2.2.9", R"({"enableCDI":true,"cdiSpecDirs":["/run/cdi/"]})", true, "resolves"},
    {"containerd", "v2.4.0", R"({"cdiSpecDirs":["/var/run/cdi"]})", true, "resolves"},
    {"containerd", "v2.4.0", "{}", true, "resolves"},
    {"containerd", "v2.0.1", "", true, "resolves"},
    {"containerd", "1.7.13~ds1", kBoth, true, "resolves"},
    {"containerd", "1.7.13~ds1", kOff, false, "disabled"},
    {"containerd", "1.7.1", "{}", false, "has no CDI"},
    {"containerd", "1.6.20", "", false, "has no CDI; use 1.7 with enable_cdi = true, or 2.0"},
    {"containerd", "", "", false, "has no CDI"},
    {"containerd", "v99999999999.1", "", false, "has no CDI"},
    {"containerd", "v2.2.9", "{", false, "cannot be read: not JSON"},
    {"containerd", "v2.2.9", "[]", false, "cannot be read: the JSON text must be an object"},
    {"containerd", "v2.2.9", R"({"enableCDI":"yes"})", false, "enableCDI must be true or false"},
    {"cri-o", "1.24.0", "", true, "resolves"},
    {"cri-o", "1.33.1", "no json", true, "resolves"},
    {"cri-o", "1.23.5", "", false, "has no CDI; use 1.24 or later"},
    {"docker", "27.0.1", "", false, "is not known to have CDI; use containerd 2.0 or CRI-O 1.24"},
    {"", "", "", false, "is not known"},
};

TEST(RuntimeCdi, DependsOnNameVersionAndConfiguration) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(std::string(c.name) + " " + c.version + " " + c.config);
    const Runtime runtime = runtime_of(c.name, c.version, c.config, "/var/run/cdi");
    EXPECT_EQ(runtime.cdi, c.cdi);
    EXPECT_THAT(runtime.why, HasSubstr(c.why));
    EXPECT_EQ(runtime.name, c.name);
    EXPECT_EQ(runtime.version, c.version);
  }
}

TEST(RuntimeCdi, RejectsDeepNesting) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"enableCDI":)";
  EXPECT_FALSE(runtime_of("containerd", "v2.2.9", deep, "/var/run/cdi").cdi);
}

std::string handlers(const std::string& default_name, const std::string& runtimes) {
  return R"({"enableCDI":true,"containerd":{"defaultRuntimeName":")" + default_name +
         R"(","runtimes":)" + runtimes + "}}";
}

TEST(RuntimeHandlers, AreNvidiasWhereTheyRunItsProgram) {
  const Runtime runtime = runtime_of("containerd", "v2.2.9", handlers("nvidia", R"({
      "runc": {"runtimeType":"io.containerd.runc.v2","runtimePath":"","options":null},
      "crun": {"runtimePath":"","options":{"BinaryName":"/usr/bin/crun","Root":""}},
      "nvidia": {"options":{"BinaryName":"/usr/local/nvidia/toolkit/nvidia-container-runtime"}},
      "cdi": {"options":{"BinaryName":"nvidia-container-runtime.cdi"}},
      "by-path": {"runtimePath":"/usr/bin/nvidia-container-runtime"},
      "nvidia-by-name": {"options":{"BinaryName":"/opt/nvidia-container-runtime.d/runc"}}})"),
                                     "/var/run/cdi");
  EXPECT_EQ(runtime.default_handler, "nvidia");
  EXPECT_THAT(runtime.nvidia_handlers, ::testing::UnorderedElementsAre("nvidia", "cdi", "by-path"));
}

TEST(RuntimeHandlers, OfProgramsThatAreNotKnownAreReported) {
  const auto read = [](const std::string& name, const std::string& all) {
    return runtime_of("containerd", "v2.2.9", handlers(name, all), "/var/run/cdi");
  };
  const Runtime other = read("nvidia", R"({"nvidia":
      {"runtimeType":"io.containerd.runc.v2","options":{"BinaryName":"nvidia-oci"}}})");
  EXPECT_EQ(other.default_handler, std::nullopt);
  EXPECT_THAT(other.unknown_handlers, ::testing::ElementsAre("nvidia (nvidia-oci)"));
  const Runtime shims = read("runc", R"({
      "runc": {"runtimeType":"io.containerd.runc.v2","options":{"BinaryName":"/usr/sbin/runc"}},
      "kata": {"runtimeType":"io.containerd.kata.v2"},
      "shim": {"runtimeType":"io.containerd.runc.v2","runtimePath":"/opt/my-shim"},
      "runsc": {"runtimeType":"io.containerd.runsc.v1","options":{"TypeUrl":"x"}}})");
  EXPECT_EQ(shims.default_handler, std::nullopt);
  EXPECT_THAT(shims.unknown_handlers,
              ::testing::UnorderedElementsAre("kata (io.containerd.kata.v2)", "shim (/opt/my-shim)",
                                              "runsc (io.containerd.runsc.v1)"));
  const Runtime plain = read("runc", R"({"runc": {"runtimeType":"io.containerd.runc.v2"}})");
  EXPECT_EQ(plain.default_handler, "runc");
  EXPECT_TRUE(plain.unknown_handlers.empty());
  const Runtime old = read("x", R"({"x": {"runtimeEngine":"/usr/bin/nvidia-container-runtime"}})");
  EXPECT_THAT(old.nvidia_handlers, ::testing::ElementsAre("x"));
}

TEST(RuntimeHandlers, AreUnknownWhereTheRuntimeDoesNotTellThem) {
  for (const std::string& config :
       {std::string(), std::string("{}"), std::string(R"({"containerd":null})"),
        std::string(R"({"containerd":[]})"), handlers("", "{}"), handlers("runc", "7"),
        handlers("runc", R"({"runc":{"options":{"BinaryName":7}}})")}) {
    const Runtime runtime = runtime_of("containerd", "v2.2.9", config, "/var/run/cdi");
    EXPECT_EQ(runtime.default_handler, std::nullopt) << config;
    EXPECT_TRUE(runtime.cdi) << "handlers do not matter to CDI: " << config;
  }
  const Runtime crio = runtime_of("cri-o", "1.33.1", handlers("nvidia", "{}"), "/var/run/cdi");
  EXPECT_EQ(crio.default_handler, std::nullopt);
}

class QueryRuntimeTest : public ::testing::Test {
 public:
  Result<Runtime> query() { return query_runtime(socket_, "/var/run/cdi", milliseconds(10'000)); }

  test::TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/containerd.sock";
};

TEST_F(QueryRuntimeTest, ReadsTheConfiguration) {
  const test::FakeRuntime server(socket_, "containerd", "v2.2.9",
                                 {{"config", kOff}, {"golang", "\"go1.26\""}});
  const auto runtime = query();
  ASSERT_TRUE(runtime) << runtime.error().message;
  EXPECT_EQ(runtime->name, "containerd");
  EXPECT_EQ(runtime->version, "v2.2.9");
  EXPECT_FALSE(runtime->cdi);
}

TEST_F(QueryRuntimeTest, AcceptsAMissingConfiguration) {
  const test::FakeRuntime server(socket_, "cri-o", "1.30.0", {});
  EXPECT_TRUE(query()->cdi);
}

TEST_F(QueryRuntimeTest, TruncatesALongName) {
  const test::FakeRuntime server(socket_, std::string(100'000, 'n'), std::string(100'000, 'v'), {});
  EXPECT_LT(query()->why.size(), 300U);
}

TEST_F(QueryRuntimeTest, NamesTheSocketThatDoesNotAnswer) {
  EXPECT_THAT(query().error().message,
              AllOf(HasSubstr("container runtime at \"" + socket_ + "\" did not answer Version"),
                    HasSubstr("Unavailable")));
}

TEST_F(QueryRuntimeTest, NamesTheCallThatFails) {
  const test::FakeRuntime server(socket_, "containerd", "v2.2.9", {}, "2 not ready");
  EXPECT_THAT(query().error().message, HasSubstr("did not answer Status: Unknown:  not ready"));
}

TEST_F(QueryRuntimeTest, ReturnsAtTheTimeout) {
  test::leave_dead_socket(socket_);
  EXPECT_FALSE(query_runtime(socket_, "/var/run/cdi", milliseconds(0)));
}

}  // namespace
}  // namespace mgpu::plugin
