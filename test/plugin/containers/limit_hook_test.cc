// mgpu-set-limits as the program that a container runtime starts, by itself and in runc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/process.h"
#include "plugin/containers/limit_server.h"
#include "plugin/hook/limit_protocol.h"
#include "test/plugin/cards/fake_driver.h"
#include "test/plugin/support/gpu_objects.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using Json = nlohmann::ordered_json;

constexpr char kState[] = R"({"ociVersion":"1.0.2","id":"c","status":"creating","pid":17})";
constexpr std::chrono::seconds kEnd{60};
constexpr char kRunc[] = "/usr/sbin/runc";

// Runs a program to its end. Returns its output, and "failed" in a last line if it failed.
std::string run(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), {"-c", "\"$@\" 2>&1 || echo failed", "sh"});
  const auto output = run_with_input({"/bin/sh", words, {}}, input, 64 * 1024, kEnd);
  return output ? *output : output.error().message;
}

std::string hook_program() {
  return std::filesystem::weakly_canonical(beside_the_test("../plugin/mgpu-set-limits"));
}

class LimitHookTest : public testing::Test {
 public:
  LimitHookTest() { EXPECT_TRUE(set_log_level("off")); }

  void serve(Result<void> outcome) {
    server_.reset();
    auto server = LimitServer::start(socket_, [this, outcome](const AllocationId& id, auto pid) {
      const std::lock_guard lock(mutex_);
      asked_.push_back(id.str());
      pid_ = pid;
      return outcome;
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  std::string run_hook(const std::string& state) const {
    return run({hook_program(), socket_, id_}, state);
  }
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  std::int64_t pid() const {
    const std::lock_guard lock(mutex_);
    return pid_;
  }

  test::ScratchFolder folder_;
  const std::string socket_ = folder_.path("limits.sock");
  const std::string id_ = test::allocated(test::device_ids(30), "a").id.str();
  mutable std::mutex mutex_;
  std::vector<std::string> asked_;  // protected by mutex_, as the next
  std::int64_t pid_ = 0;
  std::unique_ptr<LimitServer> server_;
};

TEST(LimitHook, PrintsItsVersion) {
  EXPECT_EQ(run({hook_program(), "--version"}),
            "mgpu-set-limits " MGPU_VERSION " (commit unknown)\n");
}

TEST_F(LimitHookTest, SucceedsOnceTheLimitsAreSet) {
  serve({});
  EXPECT_EQ(run_hook(kState), "");
  EXPECT_THAT(asked(), ElementsAre(id_));
  EXPECT_EQ(pid(), 17);
}

TEST_F(LimitHookTest, FailsWithTheSentenceOfThePlugin) {
  serve(error("the driver is too old"));
  EXPECT_EQ(run_hook(kState),
            "mgpu-set-limits: GPU memory not limited: the driver is too old\nfailed\n");
}

TEST_F(LimitHookTest, FailsWithoutAPlugin) {
  EXPECT_THAT(run_hook(kState), HasSubstr("cannot reach mgpu-device-plugin at " + socket_));
}

TEST_F(LimitHookTest, WaitsForAPluginThatStarts) {
  auto hook = std::async(std::launch::async, [this] { return run_hook(kState); });
  std::this_thread::sleep_for(std::chrono::milliseconds(2 * kLimitHookRetryMs));
  serve({});
  EXPECT_EQ(hook.get(), "");
}

TEST_F(LimitHookTest, FailsWithoutAPidInTheState) {
  serve({});
  for (const std::string& state :
       {std::string(), std::string("no JSON"), std::string("[17]"), std::string("{}"),
        std::string(R"({"pid": 0})"), std::string(R"({"pid": -1})"),
        std::string(R"({"pid": "17"})"), std::string(R"({"pid": 1e99})"),
        std::string(R"({"pid": 18446744073709551615})"), std::string("\0\xff", 2),
        std::string(100'000, '[')}) {
    EXPECT_THAT(run_hook(state), HasSubstr("the state of the container has no pid"));
  }
  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(LimitHookTest, FailsWithTooLongAState) {
  serve({});
  EXPECT_THAT(run_hook(std::string(std::size_t{5} << 20, ' ')),
              HasSubstr("the state of the container cannot be read"));
}

TEST_F(LimitHookTest, FailsWithOtherArguments) {
  EXPECT_THAT(run({hook_program(), socket_}, kState),
              HasSubstr("usage: mgpu-set-limits SOCKET ALLOCATION\nfailed\n"));
}

// --- MPS -----------------------------------------------------------------------------------------

// A daemon that greets its next connection with `greeting`.
class MpsHookTest : public LimitHookTest {
 public:
  void listen() {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    control_.copy(at.sun_path, sizeof at.sun_path - 1);
    ASSERT_EQ(::bind(listener_.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    ASSERT_EQ(::listen(listener_.number(), 8), 0);
  }
  std::string run_greeted(const std::string& greeting) {
    auto hook = std::async(std::launch::async, [this] { return run_mps_hook(); });
    for (bool ended = false; !ended;) {
      pollfd ready{listener_.number(), POLLIN, 0};
      if (::poll(&ready, 1, 10) > 0) {
        const UniqueFd connection(::accept(listener_.number(), nullptr, nullptr));
        // The hook may have given up this connection: what it says at its end shows what it has
        // read.
        static_cast<void>(
            ::send(connection.number(), greeting.data(), greeting.size(), MSG_NOSIGNAL));
      }
      ended = hook.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    return hook.get();
  }
  std::string run_mps_hook() const { return run({hook_program(), "--mps", control_}, kState); }

  const std::string control_ = folder_.path("control");
  UniqueFd listener_;
};

TEST_F(MpsHookTest, SucceedsIfADaemonGreetsIt) {
  listen();
  EXPECT_EQ(run_greeted(std::string("OUTBHELL\0", 9)), "");
}

TEST_F(MpsHookTest, FailsIfSomethingElseAnswers) {
  listen();
  EXPECT_THAT(run_greeted("hello"), HasSubstr("does not answer"));
}

TEST_F(MpsHookTest, FailsWithoutADaemon) {
  EXPECT_EQ(run_mps_hook(), "mgpu-set-limits: MPS does not run: cannot reach its daemon at " +
                                control_ + ": No such file or directory\nfailed\n");
}

// One that was stopped, or that waits for a connection that sends nothing.
TEST_F(MpsHookTest, FailsIfTheDaemonSaysNothing) {
  listen();
  EXPECT_THAT(run_mps_hook(), HasSubstr("does not answer"));
}

// --- in runc -------------------------------------------------------------------------------------

class RuncTest : public LimitHookTest {
 public:
  RuncTest() {
    for (const char* name : {"bundle/root", "out", "runc"}) {
      std::filesystem::create_directories(folder_.path(name));
    }
  }
  ~RuncTest() override { static_cast<void>(runc({"delete", "--force", name()})); }

  // What keeps runc from running a container here that has no hook; empty: nothing.
  std::string problem() const {
    if (::geteuid() != 0) return "this needs root";
    if (!std::filesystem::exists(kRunc)) return "this needs runc";
    write_config(Json::array());
    std::string output = run_container();
    std::filesystem::remove(folder_.path("out/started"));
    return output;
  }
  static std::string name() { return "mgpu-hook-test-" + std::to_string(::getpid()); }

  Json hooks() const {
    return {{{"path", hook_program()},
             {"args", {hook_program(), socket_, id_}},
             {"timeout", kLimitHookSeconds}}};
  }
  // The settings of `runc spec`, for a container that makes the file "started".
  void write_config(const Json& hooks) const {
    std::filesystem::remove(folder_.path("bundle/config.json"));
    EXPECT_EQ(runc({"spec", "--bundle", folder_.path("bundle")}), "");
    std::ifstream file(folder_.path("bundle/config.json"));
    Json config = Json::parse(file);
    file.close();
    config["process"]["terminal"] = false;
    config["process"]["args"] = {"/bin/sh", "-c", "echo yes > /out/started"};
    config["root"] = {{"path", "root"}, {"readonly", false}};
    const auto mount = [&config](const std::string& source, const std::string& at,
                                 const char* mode) {
      config["mounts"].push_back({{"destination", at},
                                  {"type", "bind"},
                                  {"source", source},
                                  {"options", {mode, "rbind"}}});
    };
    for (const char* folder : {"/bin", "/lib", "/lib64", "/usr"}) {
      if (std::filesystem::exists(folder)) mount(folder, folder, "ro");
    }
    mount(folder_.path("out"), "/out", "rw");
    config["linux"]["cgroupsPath"] = "/" + name();
    config["hooks"]["createRuntime"] = hooks;
    std::ofstream(folder_.path("bundle/config.json")) << config.dump();
  }
  std::string runc(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {kRunc, "--root", folder_.path("runc")});
    return run(std::move(arguments));
  }
  std::string run_container() const {
    return runc({"run", "--bundle", folder_.path("bundle"), name()});
  }
  bool started() const { return std::filesystem::exists(folder_.path("out/started")); }
};

TEST_F(RuncTest, StartsAContainerWhoseLimitsAreSet) {
  if (const auto why = problem(); !why.empty()) GTEST_SKIP() << why;
  write_config(hooks());
  serve({});
  EXPECT_EQ(run_container(), "");
  EXPECT_TRUE(started());
  EXPECT_THAT(asked(), ElementsAre(id_));
  EXPECT_GT(pid(), 0);
}

TEST_F(RuncTest, DoesNotStartAContainerWhoseLimitsAreRefused) {
  if (const auto why = problem(); !why.empty()) GTEST_SKIP() << why;
  write_config(hooks());
  serve(error("the driver is too old"));
  EXPECT_THAT(run_container(), AllOf(HasSubstr("the driver is too old"), EndsWith("failed\n")));
  EXPECT_THAT(asked(), ElementsAre(id_));
  EXPECT_FALSE(started());
}

TEST_F(RuncTest, DoesNotStartAContainerWithoutThePlugin) {
  if (const auto why = problem(); !why.empty()) GTEST_SKIP() << why;
  write_config(hooks());
  EXPECT_THAT(run_container(),
              AllOf(HasSubstr("cannot reach mgpu-device-plugin"), EndsWith("failed\n")));
  EXPECT_FALSE(started());
}

}  // namespace
}  // namespace mgpu::plugin
